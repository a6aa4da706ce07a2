"""Answers worked out another way, for problems that the package solves too."""
