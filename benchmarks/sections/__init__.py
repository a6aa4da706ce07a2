"""The tables, one a file. Each has `run(quick)` and returns a `harness.Section`."""
