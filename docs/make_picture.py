"""Draw the picture of the README: what an understudy does to a room's readings, and to an adversary.

    python docs/make_picture.py                 writes docs/picture.svg
    python docs/make_picture.py out.svg out.png writes the files named

The room is that of the paper: X' = 0.95 X + 10 Theta + W, Y = X + V, both variances 0.1, X_0 ~ N(100, 1).
True occupancy 1, understudy 0.6. Needs matplotlib (the extra `plot`). The seed is fixed, so the picture
is the same on every run.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

import understudy as us

Array = NDArray[np.float64]

TRUE, UNDERSTUDY = 1.0, 0.6
A, B = 0.95, 10.0
SHOWN, WATCHED, ROOMS = 50, 2000, 2000

# Middle tones: each has a contrast of 3 or more on white and on near-black.
INK, RAW, NOISY, DISGUISED = "#7d7d7d", "#2f81c7", "#c77d1a", "#c2478a"


def room(occupants: float) -> us.GaussMarkov:
    """The paper's room."""
    return us.GaussMarkov(A=A, C=1.0, Q=0.1, R=0.1, b=B * occupants, mean0=100.0, cov0=1.0)


def averaged(Y: Array) -> Array:
    """Occupancy as an adversary estimates it from the first k readings, k = 2, 3, ...

    Averaging Y_i - A Y_{i-1} = B Theta + noise over i = 2..k, and dividing by B.
    """
    moves = Y[1:] - A * Y[:-1]
    counts = np.arange(1, len(Y)).reshape(-1, *[1] * (Y.ndim - 1))
    return np.cumsum(moves, axis=0) / counts / B


def readings(rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Raw, disguised and noise-added readings of many rooms, (WATCHED, ROOMS) each."""
    Y = us.sample(room(TRUE), WATCHED, n=ROOMS, rng=rng)
    disguised = us.disguise(Y, source=room(TRUE), target=room(UNDERSTUDY))
    # Gaussian noise with the same mean absolute error: E |N| = sd sqrt(2 / pi).
    sd = np.abs(Y - disguised).mean() * np.sqrt(np.pi / 2.0)
    noisy = Y + sd * rng.standard_normal(Y.shape)
    return Y[:, 0], disguised[:, 0], noisy[:, 0]


def band(axes: Axes, x: Array, Y: Array, colour: str) -> None:
    """The middle 95 percent over the rooms."""
    low, high = np.quantile(Y, [0.025, 0.975], axis=1)
    axes.fill_between(x, low, high, color=colour, alpha=0.28, linewidth=0)


def draw_readings(axes: Axes, Y: Array, disguised: Array) -> None:
    """One room's readings, and the law of each as a band."""
    k = np.arange(1, SHOWN + 1)
    for values, colour in ((Y, RAW), (disguised, DISGUISED)):
        band(axes, k, values[:SHOWN], colour)
        axes.plot(k, values[:SHOWN, 0], color=colour, linewidth=1.0, marker="o", markersize=2.4)
    axes.text(30, 168, "true readings\noccupancy 1", color=RAW, ha="left", va="top")
    axes.text(30, 124, "disguised readings\nunderstudy 0.6", color=DISGUISED, ha="left", va="bottom")
    axes.set(xlabel="reading number", ylabel="CO₂ reading", xlim=(0, SHOWN + 1), ylim=(95, 202))
    axes.set_title("One room: true, and as it leaves the building", loc="left")


def draw_estimates(axes: Axes, Y: Array, disguised: Array, noisy: Array) -> None:
    """What averaging finds out of each."""
    k = np.unique(np.geomspace(10, WATCHED, 120).astype(int))
    for values, colour in ((noisy, NOISY), (Y, RAW), (disguised, DISGUISED)):
        estimate = averaged(values)[k - 2]
        band(axes, k, estimate, colour)
        axes.plot(k, estimate[:, 0], color=colour, linewidth=1.0 if colour == NOISY else 1.6)
    for level in (TRUE, UNDERSTUDY):
        axes.axhline(level, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    axes.text(WATCHED, 1.06, "raw: the truth", color=RAW, ha="right", va="bottom")
    noise = "noise of the same mean error:\nthe truth, after a wait"
    axes.text(WATCHED, 1.5, noise, color=NOISY, ha="right", va="bottom")
    axes.text(WATCHED, 0.55, "disguised: the understudy", color=DISGUISED, ha="right", va="top")
    axes.set(xscale="log", xlim=(10, WATCHED), ylim=(0.0, 2.0), yticks=[0, 0.6, 1, 2])
    axes.set(xlabel="readings averaged", ylabel="estimated occupancy")
    axes.set_xticks([10, 100, 1000], ["10", "100", "1000"])
    axes.set_title("What an averaging adversary concludes", loc="left")


def main(paths: list[Path]) -> None:
    """Draw, and write every file named."""
    style = {
        "font.size": 10, "axes.titlesize": 11, "axes.spines.top": False, "axes.spines.right": False,
        "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "axes.titlecolor": INK,
        "xtick.color": INK, "ytick.color": INK, "svg.hashsalt": "understudy",
    }  # fmt: skip
    Y, disguised, noisy = readings(np.random.default_rng(5))
    with plt.rc_context(style):
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.7), layout="constrained")
        draw_readings(left, Y, disguised)
        draw_estimates(right, Y, disguised, noisy)
        for path in paths:
            svg = path.suffix == ".svg"
            figure.savefig(path, transparent=True, dpi=150, metadata={"Date": None} if svg else None)


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]] or [Path(__file__).with_name("picture.svg")])
