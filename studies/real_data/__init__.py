"""The study on real data: what hiding occupancy costs in real rooms, and what adversaries still learn.

    python -m studies.real_data --data ../shared/data [--only "sdu 1"] [--again]

writes docs/real-data.md, its appendix and figure, `results.json` and, with `--again`, the choices on training days.
The data are not part of the project: `data.py` says which files are needed and where they come from.
"""
