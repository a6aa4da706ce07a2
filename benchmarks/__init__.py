"""How fast, against whom: `python benchmarks/run.py`."""
