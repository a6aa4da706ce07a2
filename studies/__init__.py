"""Studies on data that others recorded: run by hand, never shipped with the package."""
