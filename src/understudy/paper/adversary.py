"""Fig. "error probability of the estimator versus leakage" (Section V): three adversaries against the whole filter.

What is attacked is the real output. For each leakage I_0 a randomizer is designed; many rooms draw their occupancy, the
randomizer draws an understudy for each, their readings are simulated and disguised, and each adversary guesses the
occupancy from the 50 disguised readings:

- the estimator as printed, (Ybar - Ybarbar) / a, rounded to 0 or 1;
- the one consistent with the model, (Ybar - a Ybarbar) / b, rounded likewise;
- the best there is, who knows the design: the most probable theta_i given all readings, with
  Pr(theta_i given ~y) proportional to p_i sum_j P_ij p_{~theta_j}(~y).

By the chain Theta -> ~Theta -> ~Y none of them can be wrong less often than 1 - sum_j max_i p_i P_ij.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import understudy as us
from understudy._types import Array, Ints, Progress
from understudy.paper import setting as room
from understudy.paper.estimates import Setup
from understudy.paper.setting import FALSE_ALARM, Outcome, Settings, Table, fill, tell, words
from understudy.report.figures import Bounds, ErrorCurve, panels, plot_error_ratios, plot_errors

Adversary = Callable[[us.Design, Array], Ints]

LEAKAGES = (*(round(0.05 * i, 2) for i in range(14)), 0.68, 0.69)
FEW = (0.0, 0.15, 0.3, 0.45, 0.6, 0.68)
SEQUENCES, QUICK = 100_000, 10_000
_LINE = 60  # points of the bounds as they are drawn
_CHUNK = 25_000  # sequences at a time: what fits into the caches is faster


def _along(leakages: Iterable[float]) -> tuple[us.Design, ...]:
    """The paper's design at many leakages; the costs are found once."""
    family, T = room.family(), room.HORIZON
    return us.frontier(family, room.PSEUDO, leakages=leakages, horizon=T, distortion="mae").designs


def draws(design: us.Design, rows: Ints, rng: np.random.Generator) -> Ints:
    """A column for each row: `Randomizer.draw_index` for many at once, from the same random bits.

    >>> design = room.make_design()
    >>> rows = np.arange(200) % 2
    >>> one_by_one = np.random.default_rng(1)
    >>> alone = [design.randomizer.draw_index(int(i), one_by_one) for i in rows]
    >>> draws(design, rows, np.random.default_rng(1)).tolist() == alone
    True
    """
    bits = rng.integers(1 << 53, size=len(rows))
    ends = np.cumsum(design.randomizer.counts, axis=1)
    return np.asarray((bits[:, None] >= ends[rows]).sum(axis=1), dtype=np.int64)


def release(design: us.Design, n: int, rng: np.random.Generator) -> tuple[Ints, Array]:
    """What leaves n rooms: which occupancy each had, and its disguised readings (time, room)."""
    family = design.family
    if family is None:
        raise us.errors.DesignError("the design has no family; readings cannot be simulated from bare costs")
    rows = rng.choice(len(family.values), size=n, p=family.prior)
    columns = draws(design, rows, rng)
    out = np.empty((room.HORIZON, n))
    for i, j in np.ndindex(design.cost.shape):
        at = np.flatnonzero((rows == i) & (columns == j))
        if at.size == 0:
            continue
        source, target = family.model(design.values[i]), family.model(design.pseudo[j])
        Y = us.sample(source, room.HORIZON, n=len(at), rng=rng).reshape(room.HORIZON, 1, len(at))
        out[:, at] = us.disguise(Y, source=source, target=target)[:, 0]
    return rows, out


def posterior(design: us.Design, out: Array) -> Array:
    """Pr(theta_i given all readings) for who knows the design, (m, rooms)."""
    if design.family is None:
        raise us.errors.DesignError("the design has no family; nobody can tell how likely readings are")
    joint = design.prior[:, None] * design.randomizer.kernel
    played = np.flatnonzero(joint.any(axis=0))
    L = np.stack([us.loglik(out[:, None, :], design.family.model(design.pseudo[j])) for j in played])
    weight = joint[:, played] @ np.exp(L - L.max(axis=0))
    return np.asarray(weight / weight.sum(axis=0))


def best(design: us.Design, out: Array) -> Ints:
    """The most probable occupancy, by its row."""
    return np.asarray(posterior(design, out).argmax(axis=0))


def by_estimator(estimator: str, design: us.Design, out: Array) -> Ints:
    """An estimator at the last reading, rounded to the nearest value."""
    return np.searchsorted(design.values, room.guess(Setup().last_estimate(out, estimator), design.values))


ADVERSARIES: dict[str, Adversary] = {
    "printed estimator": partial(by_estimator, "printed"),
    "consistent estimator": partial(by_estimator, "consistent"),
    "best adversary": best,
}


def attack(
    leakages: tuple[float, ...], n: int, rng: np.random.Generator, progress: Progress | None = None
) -> ErrorCurve:
    """Every adversary against n sequences at each leakage."""
    wrong = {name: np.zeros(len(leakages), dtype=np.int64) for name in ADVERSARIES}
    designs = _along(leakages)
    for at, design in enumerate(designs):
        for start in range(0, n, _CHUNK):
            rows, out = release(design, min(_CHUNK, n - start), rng)
            for name, adversary in ADVERSARIES.items():
                wrong[name][at] += int((adversary(design, out) != rows).sum())
        if progress is not None:
            progress((at + 1) / len(designs))
    line = _along(np.linspace(0.0, max(leakages), _LINE).tolist())
    return ErrorCurve(n, wrong, Bounds.of(designs), Bounds.of(line))


def compute(settings: Settings) -> Outcome:
    """Errors of the adversaries by simulation, the bounds, and whether anybody beats the exact one."""
    leakages, n = (FEW, QUICK) if settings.quick else (LEAKAGES, SEQUENCES)
    rng = settings.rng("adversary")
    curve = attack(leakages, n, rng, settings.progress)
    raw = errors_on_raw(n, rng)
    numbers: dict[str, float] = {"sequences": n, "points": len(leakages)}
    for name in ADVERSARIES:
        short = name.split()[0]
        numbers |= {f"{short}_error_at_{x:g}": float(e) for x, e in zip(leakages, curve.rates(name), strict=True)}
        numbers[f"{short}_error_unfiltered"] = raw[name] / n
    for name in ("exact", "fano", "fano_paper"):
        bound = getattr(curve.bounds, name)
        numbers |= {f"{name}_at_{x:g}": float(e) for x, e in zip(leakages, bound, strict=True)}
    chances = {name: curve.chances(name) for name in ADVERSARIES}
    numbers["least_chance"] = float(min(chance.min() for chance in chances.values()))
    numbers["comparisons"] = len(ADVERSARIES) * len(leakages)
    factor = numbers["exact_at_0.3"] / numbers["exact_at_0.68"]
    pictures = {"adversary": lambda: _draw(curve)}
    found = tell("adversary", numbers, (_table(curve),), pictures, exact_factor=factor)
    verdict = words()["adversary"]["beaten" if is_beaten(numbers) else "kept"]
    return replace(found, paragraphs=(*found.paragraphs, fill(verdict, numbers)))


def expected_error(design: us.Design, estimator: str, setup: Setup | None = None) -> float:
    """The error of a rounded estimator on the disguised readings, exactly, for occupancies 0 and 1.

    Both estimators are linear in the readings and those Gaussian given ~Theta: with q_j the probability that the
    estimate is above 1/2 under ~theta_j, the error is sum_j (p_0 P_0j q_j + p_1 P_1j (1 - q_j)).

    >>> [round(expected_error(room.make_design(leakage), "consistent"), 4) for leakage in (0.3, 0.68)]
    [0.1336, 0.0018]
    """
    from scipy.special import ndtr

    found = [(setup or Setup()).moments(estimator, value) for value in design.pseudo]
    q = ndtr([(mean - 0.5) / sd for mean, sd in found])
    empty, taken = design.prior[:, None] * design.randomizer.kernel
    return float(empty @ q + taken @ (1.0 - q))


def errors_on_raw(n: int, rng: np.random.Generator) -> dict[str, int]:
    """Wrong guesses on readings that were not disguised; the best adversary expects them so."""
    design = us.design(room.family(), leakage="100%", horizon=room.HORIZON, distortion="mae")
    rows, out = release(design, n, rng)
    return {name: int((adversary(design, out) != rows).sum()) for name, adversary in ADVERSARIES.items()}


def is_beaten(numbers: dict[str, float]) -> bool:
    """Whether an adversary was right too often to be chance, at a false-alarm rate of 1e-6 for all of them together."""
    return numbers["least_chance"] < FALSE_ALARM / numbers["comparisons"]


def _table(curve: ErrorCurve) -> Table:
    rows = []
    bounds = curve.bounds
    for at, x in enumerate(bounds.leakages):
        cells = [f"{x:g}"]
        for name in ADVERSARIES:
            low, high = (limit[at] for limit in curve.band(name))
            cells.append(f"{curve.rates(name)[at]:.5f} ({low:.5f} to {high:.5f})")
        rows.append((*cells, *(f"{bound[at]:.4f}" for bound in (bounds.exact, bounds.fano, bounds.fano_paper))))
    return Table(
        f"Error probabilities by simulation, {curve.n:,} sequences a row, with 99 percent confidence limits; and "
        "bounds.",
        ("I_0 (nats)", *ADVERSARIES, "exact bound", "sharp Fano", "Theorem 3, units right"),
        tuple(rows),
    )


def _draw(curve: ErrorCurve) -> Any:
    figure, (left, middle, right) = panels(3, width=4.4, height=4.2)
    plot_errors(curve, left, log=True).set_title("logarithmic scale", fontsize="medium")
    plot_errors(curve, middle, log=False).set_title("linear scale, with Theorem 3", fontsize="medium")
    middle.get_legend().remove()
    middle.annotate("a bound below 0 says nothing", (0.02, -0.93), color="#555555", fontsize=8)
    close = ("consistent estimator", "best adversary")
    plot_error_ratios(curve, close, right).set_title("the two on the bound, 99% limits", fontsize="medium")
    return figure
