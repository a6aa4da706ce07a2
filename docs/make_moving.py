"""Draw the picture of the page on moving parameters: three ways to draw for a bit that stays with probability 0.98.

    python docs/make_moving.py                 writes docs/moving.svg
    python docs/make_moving.py out.svg out.png writes the files named

Needs matplotlib (the extra `plot`); takes about ten seconds.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from memory_cases import compare_memory, plot_memory  # the path comes first

# A middle tone: it has a contrast of 3 or more on white and on near-black.
INK = "#7d7d7d"


def main(paths: list[Path]) -> None:
    """Draw, and write every file named."""
    found = compare_memory(0.02, epoch=10, steps=1000, sequences=100)
    style = {
        "font.size": 10, "axes.titlesize": 11, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK,
        "axes.titlecolor": INK, "xtick.color": INK, "ytick.color": INK, "svg.hashsalt": "understudy",
    }  # fmt: skip
    with plt.rc_context(style):
        figure, three = plt.subplots(1, 3, figsize=(11.4, 3.8), layout="constrained")
        plot_memory(found, three)
        for path in paths:
            svg = path.suffix == ".svg"
            figure.savefig(path, transparent=True, dpi=150, metadata={"Date": None} if svg else None)


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]] or [Path(__file__).with_name("moving.svg")])
