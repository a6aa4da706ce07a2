"""The picture of direct computation against the recursion, drawn from the table's own rows."""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness import Section

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def draw(section: Section, path: Path) -> bool:
    """Write the figure; False where matplotlib is not installed (the table says the same)."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "understudy"  # the same figures give the same file
    from matplotlib import pyplot

    curves: dict[str, list[tuple[int, float]]] = {}
    for row in section.rows:
        length, _, way = row.contender.partition(": ")
        value, unit = row.best.split()
        curves.setdefault(way, []).append((int(length[4:].replace(",", "")), float(value) * UNITS[unit]))
    figure, axes = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
    for way, points in curves.items():
        axes.loglog(*zip(*points, strict=True), marker="o", label=way)
    axes.set_xlabel("reading number k")
    axes.set_ylabel("seconds for this reading")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return True
