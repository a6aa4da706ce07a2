"""Fig. "Estimates of occupancy" (Section II-B): what averaging makes of raw and of noisy readings.

The paper estimates the occupancy from two means over windows of T_h readings, one reading apart::

    Ybar_k    = mean of Y_{k-T_h+1} .. Y_k
    Ybarbar_k = mean of Y_{k-T_h} .. Y_{k-1}
    printed     (Ybar_k - Ybarbar_k) / a      = (Y_k - Y_{k-T_h}) / (a T_h), as the sums telescope
    consistent  (Ybar_k - a Ybarbar_k) / b    as X_{k+1} - a X_k = b Theta + W_k

Both are linear in the readings, so mean and standard deviation are exact. With x = b Theta / (1 - a), where the room
settles, the printed one has the mean ::

    a^(k - T_h) (1 - a^T_h) (x - mean X_0) / (a T_h)

which is gone with the transient, whatever b is. It is near Theta only where the room has hardly begun to settle: a near
one, b near a, and X_0 (1 - a) small beside b.

`compute_disguised` makes the figures "true and disguised" and "output of the occupancy estimator" (Section V), for
Theta = 1 and ~Theta = 0.6: one room with one person, disguised as a room with 0.6 of a person. As the two models
differ in their input alone, Y_k - ~Y_k = 10 (1 - 0.6) (1 - 0.95^k) / 0.05 in every realisation: the noise passes
unchanged.

The pair is the paper's choice for its figures. The optimal randomizer for absolute distortion never draws 0.6: it
plays 0 or 1.

`compute_errors` makes Fig. "error probability of the estimator versus leakage" (Section V): three adversaries against
the whole filter. What is attacked is the real output. For each leakage I_0 a randomizer is designed; many rooms draw
their occupancy, the randomizer draws an understudy for each, their readings are simulated and disguised, and each
adversary guesses the occupancy from the 50 disguised readings:

- the estimator as printed, (Ybar - Ybarbar) / a, rounded to 0 or 1;
- the one consistent with the model, (Ybar - a Ybarbar) / b, rounded likewise;
- the best there is, who knows the design: the most probable theta_i given all readings, with
  Pr(theta_i given ~y) proportional to p_i sum_j P_ij p_{~theta_j}(~y).

By the chain Theta -> ~Theta -> ~Y none of them can be wrong less often than 1 - sum_j max_i p_i P_ij.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

import understudy as us
from understudy._types import Array, Ints, Progress
from understudy.checks import whiteness
from understudy.paper import setting as room
from understudy.paper.setting import FALSE_ALARM, Outcome, Settings, Table, fill, make_design, share_text, tell, words
from understudy.report.figures import (
    BLUE,
    ROSE,
    Bounds,
    ErrorCurve,
    Trace,
    panels,
    plot_error_ratios,
    plot_errors,
    plot_traces,
)

# What averaging makes of raw and of noisy readings (Section II-B) ---------------------------------------------------

ESTIMATORS = ("consistent", "printed")
WINDOW = 10
SHOWN = 100  # readings in the figure: twice the paper's horizon, so that the transient is seen to end
NOISE = 1.0  # variance of the noise that is added
OCCUPANCIES = (1, 2)


@dataclass(frozen=True)
class Setup:
    """What the figure needs and the paper does not print; by default the room of Section V and its window."""

    a: float = room.A
    b: float = room.B
    start: float = room.START
    window: int = WINDOW

    def model(self, theta: float) -> us.GaussMarkov:
        """The room with this occupancy."""
        return room.room(theta, self.a, self.b, self.start)

    def weights(self, estimator: str) -> Array:
        """What each of the last T_h + 1 readings counts for in an estimate."""
        now, before = np.ones(self.window + 1), np.ones(self.window + 1)
        now[0] = before[-1] = 0.0
        if estimator == "printed":
            return (now - before) / (self.a * self.window)
        return (now - self.a * before) / (self.b * self.window)

    def estimate(self, Y: Array, estimator: str) -> Array:
        """The estimates at readings T_h + 1, T_h + 2, .. of one sequence."""
        return np.correlate(Y, self.weights(estimator), mode="valid")

    def last_estimate(self, Y: Array, estimator: str) -> Array:
        """The estimates at the last reading of many sequences; time is the first axis."""
        return np.asarray(self.weights(estimator) @ Y[-self.window - 1 :])

    def moments(self, estimator: str, theta: float, k: int = room.HORIZON, noise: float = 0.0) -> tuple[float, float]:
        """Mean and standard deviation of the estimate at reading k, exactly; `noise` is the variance added."""
        a, Q = self.a, room.VARIANCE
        t = np.arange(k - self.window, k + 1)
        c = self.weights(estimator)
        settled = self.b * theta / (1.0 - a)
        mean = settled + a**t * (self.start - settled)
        # var X_k = a^2k cov0 + Q (1 - a^2k) / (1 - a^2), cov(X_i, X_j) = a^|i-j| var X_min(i,j)
        variance = a ** (2 * t) + Q * (1.0 - a ** (2 * t)) / (1.0 - a * a)
        earlier = np.minimum.outer(np.arange(t.size), np.arange(t.size))
        S = a ** abs(t[:, None] - t) * variance[earlier]
        S[np.diag_indices_from(S)] += Q + noise
        return float(c @ mean), float(np.sqrt(c @ S @ c))


def misses(mean: float, sd: float, theta: float) -> float:
    """How often the whole number nearest to a Gaussian estimate is another one.

    >>> round(misses(0.5, 0.1, 0), 12)
    0.5
    """
    from scipy.special import ndtr

    return float(ndtr((theta - 0.5 - mean) / sd) + ndtr((mean - theta - 0.5) / sd))


# Where the printed formula does work: a room that leaks so slowly that it only fills up.
SLOW = Setup(a=0.999, b=1.0, start=0.0)

VARIANTS: tuple[tuple[str, Setup], ...] = (
    ("Section V: a = 0.95, b = 10, X_0 = 100, window 10", Setup()),
    ("window 5", Setup(window=5)),
    ("window 20", Setup(window=20)),
    ("window 40", Setup(window=40)),
    ("X_0 = 0", Setup(start=0.0)),
    ("X_0 = 200", Setup(start=200.0)),
    ("X_0 = 400", Setup(start=400.0)),
    ("b = 1", Setup(b=1.0)),
    ("b = 1, X_0 = 0", Setup(b=1.0, start=0.0)),
    ("b = 9.2, X_0 = 0", Setup(b=9.2, start=0.0)),
    ("a = 0.5", Setup(a=0.5)),
    ("a = 0.99", Setup(a=0.99)),
    ("a = 0.99, b = 1, X_0 = 0", Setup(a=0.99, b=1.0, start=0.0)),
    ("a = 0.999, b = 1, X_0 = 0", SLOW),
    ("a = 0.999, b = 1, X_0 = 100", replace(SLOW, start=100.0)),
)


def compute(settings: Settings) -> Outcome:
    """Estimates over time for one and two people, and what they would be in other rooms."""
    rng, setup = settings.rng("estimates"), Setup()
    numbers: dict[str, float] = {}
    for estimator in ESTIMATORS:
        for theta in OCCUPANCIES:
            for case, noise in (("raw", 0.0), ("noisy", NOISE)):
                mean, sd = setup.moments(estimator, theta, noise=noise)
                name = f"{estimator}_theta{theta}_{case}"
                numbers |= {f"{name}_mean": mean, f"{name}_sd": sd, f"{name}_misses": misses(mean, sd, theta)}
    numbers |= _simulate(setup, 2_000 if settings.quick else 20_000, rng)
    for theta in OCCUPANCIES:
        numbers[f"slow_printed_theta{theta}_mean"] = SLOW.moments("printed", theta)[0]
        numbers[f"printed_theta{theta}_mean_at_1000"] = setup.moments("printed", theta, 1000)[0]
        numbers[f"printed_from_zero_theta{theta}_mean"] = Setup(start=0.0).moments("printed", theta)[0]
        numbers[f"printed_from_zero_theta{theta}_mean_at_11"] = Setup(start=0.0).moments("printed", theta, 11)[0]
    # the one b for which X_0 = 0 gives Theta at the last reading of the horizon
    at_zero = Setup(start=0.0)
    numbers["printed_b_for_last_reading"] = at_zero.b / at_zero.moments("printed", 1)[0]
    settings.progress(0.8)
    drawn = {name: _traces(which, rng) for name, which in (("room", setup), ("slow", SLOW))}
    settings.progress(1.0)
    return tell("estimates", numbers, (_variants(), _transient()), {"estimates": lambda: _draw(drawn)})


def _simulate(setup: Setup, n: int, rng: np.random.Generator) -> dict[str, float]:
    """The same misses by simulation, as a check of the exact ones."""
    found: dict[str, float] = {"sequences": n}
    for theta in OCCUPANCIES:
        Y = us.sample(setup.model(theta), room.HORIZON, n=n, rng=rng)[:, 0]
        for case, seen in (("raw", Y), ("noisy", Y + rng.normal(0.0, np.sqrt(NOISE), Y.shape))):
            for estimator in ESTIMATORS:
                last = setup.last_estimate(seen, estimator)
                found[f"{estimator}_theta{theta}_{case}_misses_simulated"] = float((np.rint(last) != theta).mean())
    return found


def _traces(setup: Setup, rng: np.random.Generator) -> dict[str, list[Trace]]:
    """One sequence for each occupancy, raw and noisy, through both estimators."""
    found: dict[str, list[Trace]] = {estimator: [] for estimator in ESTIMATORS}
    for theta, colour in zip(OCCUPANCIES, (BLUE, ROSE), strict=True):
        Y = us.sample(setup.model(theta), SHOWN, rng=rng)
        for case, dashes, seen in (("raw", "solid", Y), ("noise added", "dashed", Y + rng.normal(size=Y.shape))):
            for estimator in ESTIMATORS:
                label = rf"$\Theta$ = {theta}, {case}"
                values = setup.estimate(seen, estimator)
                found[estimator].append(Trace(label, values, setup.window + 1, colour, dashes))
    return found


def _draw(drawn: dict[str, dict[str, list[Trace]]]) -> Any:
    figure, axes = panels(3, width=4.0, height=3.4)
    shown = (
        ("room", "consistent", r"$(\bar Y - a\bar{\bar Y})/b$, room of Section V"),
        ("room", "printed", r"$(\bar Y - \bar{\bar Y})/a$ as printed, same room"),
        ("slow", "printed", r"as printed, $a = 0.999$, $b = 1$, $X_0 \approx 0$"),
    )
    levels = {f"{theta}": float(theta) for theta in OCCUPANCIES}
    for ax, (which, estimator, title) in zip(axes, shown, strict=True):
        plot_traces(drawn[which][estimator], ax, ylabel="estimated occupancy (people)", levels=levels)
        ax.set_title(title, fontsize="medium")
    for ax in (axes[0], axes[2]):
        ax.set_ylim(0.0, 3.0)
        ax.legend(frameon=False, fontsize=8, ncols=2, loc="upper center")
    return figure


def _variants() -> Table:
    """What changes when the choice changes, at the last reading of the horizon."""
    rows = []
    for name, setup in VARIANTS:
        cells = [name]
        for estimator in ESTIMATORS:
            for noise in (0.0, NOISE):
                found = [(*setup.moments(estimator, theta, noise=noise), theta) for theta in OCCUPANCIES]
                cells.append(", ".join(f"{_short(mean)} ± {sd:.2g}" for mean, sd, _ in found))
                cells.append(share_text(float(np.mean([misses(*one) for one in found])), "<"))
        rows.append(tuple(cells))
    heads = [f"{e}, {case}" for e in ESTIMATORS for case in ("raw", "noise added")]
    columns = ["room", *(column for head in heads for column in (head, "wrong"))]
    caption = (
        f"Estimate (mean ± standard deviation, exact) at reading {room.HORIZON} for one and for two people, and how "
        "often the nearest whole number is wrong. Rows name what differs from Section V's room."
    )
    return Table(caption, tuple(columns), tuple(rows))


def _transient() -> Table:
    """The printed formula over time: a transient and nothing else."""
    rooms = (Setup(), Setup(b=1.0, start=0.0), SLOW)
    rows = []
    for k in (11, 15, 20, 30, 50, 100, 200, 1000):
        means = [[setup.moments("printed", theta, k)[0] for theta in OCCUPANCIES] for setup in rooms]
        rows.append((str(k), *(", ".join(map(_short, pair)) for pair in means)))
    columns = ("reading k", "Section V's room", "a = 0.95, b = 1, X_0 = 0", "a = 0.999, b = 1, X_0 = 0")
    return Table("Mean of the printed estimate for one and for two people, over time.", columns, tuple(rows))


def _short(x: float) -> str:
    """Three digits; what is gone is 0.

    >>> _short(0.54281), _short(-3.6e-15)
    ('0.543', '0')
    """
    return "0" if abs(x) < 1e-9 else f"{x:.3g}"


# True and disguised readings, and the estimators on both (Section V) --------------------------------------------------

THETA, PSEUDO = 1, 0.6
_READINGS = (11, 20, 30, 40, 50)


def compute_disguised(settings: Settings) -> Outcome:
    """One realisation, its disguise, and what the estimators make of both."""
    source, target = room.room(THETA), room.room(PSEUDO)
    Y = us.sample(source, room.HORIZON, rng=settings.rng("disguised"))
    out = us.disguise(Y, source=source, target=target)
    setup = Setup()
    numbers: dict[str, float] = {
        "mean_change": float(np.abs(Y - out).mean()),
        "mean_change_exact": float(us.costs(room.family((THETA,)), [PSEUDO], room.HORIZON, "mae").matrix[0, 0]),
        "last_true": float(Y[-1]),
        "last_disguised": float(out[-1]),
        "round_trip": float(np.abs(us.disguise(out, source=target, target=source) - Y).max()),
        "whiteness_under_pseudo": float(whiteness(us.whiten(out, target)).p_value),
        "whiteness_under_true": float(whiteness(us.whiten(out, source)).p_value),
        "kernel_mass_on_pseudo": float(_mass_on_pseudo()),
    }
    for estimator in ESTIMATORS:
        for name, seen, theta in (("true", Y, THETA), ("disguised", out, PSEUDO)):
            mean, sd = setup.moments(estimator, theta)
            numbers[f"{estimator}_{name}"] = float(setup.estimate(seen, estimator)[-1])
            numbers |= {f"{estimator}_{name}_mean": mean, f"{estimator}_{name}_sd": sd}
            numbers[f"{estimator}_{name}_says_one"] = _says_one(mean, sd)
    settings.progress(1.0)
    pictures = {
        "true-and-disguised": lambda: _draw_readings(Y, out),
        "estimator-output": lambda: _draw_estimates(Y, out),
    }
    under = {name: _p_value(numbers[f"whiteness_{name}"]) for name in ("under_pseudo", "under_true")}
    return tell("disguised", numbers, (_disguised_table(Y, out, setup),), pictures, **under)


def _mass_on_pseudo() -> float:
    """How often the optimal randomizer at I_0 = 0.3 plays this pseudo value."""
    design = make_design()
    return float(design.prior @ design.randomizer.kernel[:, room.PSEUDO.index(PSEUDO)])


def _says_one(mean: float, sd: float) -> float:
    """How often a Gaussian estimate is nearer to 1 than to 0."""
    from scipy.special import ndtr

    return float(ndtr((mean - 0.5) / sd))


def _draw_readings(Y: Array, out: Array) -> Any:
    figure, (ax,) = panels(1, width=6.0, height=3.4)
    traces = (
        Trace(rf"true, $\Theta$ = {THETA}", Y),
        Trace(rf"disguised, $\tilde\Theta$ = {PSEUDO}", out, colour=ROSE, dashes="dashed"),
    )
    plot_traces(traces, ax, ylabel=r"CO$_2$ (ppm)")
    return figure


def _draw_estimates(Y: Array, out: Array) -> Any:
    figure, axes = panels(2, width=4.8, height=3.4)
    setup = Setup()
    titles = (r"$(\bar Y - a\bar{\bar Y})/b$, consistent with the model", r"$(\bar Y - \bar{\bar Y})/a$, as printed")
    for ax, estimator, title in zip(axes, ESTIMATORS, titles, strict=True):
        first = setup.window + 1
        traces = (
            Trace(rf"on true readings ($\Theta$ = {THETA})", setup.estimate(Y, estimator), first),
            Trace(
                rf"on disguised readings ($\tilde\Theta$ = {PSEUDO})",
                setup.estimate(out, estimator),
                first,
                ROSE,
                "dashed",
            ),
        )
        plot_traces(traces, ax, "estimated occupancy (people)", {"truth": THETA, "understudy": PSEUDO})
        ax.set_title(title, fontsize="medium")
    axes[0].set_ylim(0.0, 1.6)
    return figure


def _disguised_table(Y: Array, out: Array, setup: Setup) -> Table:
    rows = []
    for k in _READINGS:
        cells = [f"{setup.estimate(seen, e)[k - setup.window - 1]:.3f}" for e in ESTIMATORS for seen in (Y, out)]
        rows.append((str(k), f"{Y[k - 1]:.2f}", f"{out[k - 1]:.2f}", *cells))
    heads = [f"{e}, {seen}" for e in ESTIMATORS for seen in ("true", "disguised")]
    return Table("The realisation of the figures.", ("reading k", "true", "disguised", *heads), tuple(rows))


def _p_value(p: float) -> str:
    """As it is written down.

    >>> _p_value(0.25), _p_value(0.0)
    ('p = 0.25', 'p < 1e-12')
    """
    return f"p = {p:.2g}" if p >= 1e-12 else "p < 1e-12"


# Wrong guesses against leakage (Section V) -------------------------------------------------------------------------


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


def compute_errors(settings: Settings) -> Outcome:
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
    pictures = {"adversary": lambda: _draw_errors(curve)}
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


def _draw_errors(curve: ErrorCurve) -> Any:
    figure, (left, middle, right) = panels(3, width=4.4, height=4.2)
    plot_errors(curve, left, log=True).set_title("logarithmic scale", fontsize="medium")
    plot_errors(curve, middle, log=False).set_title("linear scale, with Theorem 3", fontsize="medium")
    middle.get_legend().remove()
    middle.annotate("a bound below 0 says nothing", (0.02, -0.93), color="#555555", fontsize=8)
    close = ("consistent estimator", "best adversary")
    plot_error_ratios(curve, close, right).set_title("the two on the bound, 99% limits", fontsize="medium")
    return figure
