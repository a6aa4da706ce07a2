"""The study on real data: what hiding occupancy costs in real rooms, and what adversaries still learn.

    python -m studies.real_data --data ../shared/data [--only candanedo] [--quick]

writes docs/real-data.md, docs/real-data-*.svg and studies/real_data/results.json. The data are not part of the project:
`data.py` says which files are needed and where they come from.
"""
