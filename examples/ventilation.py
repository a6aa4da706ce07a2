"""Ventilation on demand, and who may know how many people are in the room.

    python examples/ventilation.py                   prints the table
    python examples/ventilation.py --plot loop.svg   draws one of the days as well (needs matplotlib)

The CO2 of a meeting room follows the people in it and the air that a fan brings. The number of people is private
and moves. Readings leave the building disguised; the position of the fan is public, or it is not. Who steers the fan,
and from which readings, decides what is told, what people breathe and what the fan costs.

Nothing here is fit to keep anybody safe: a fan that runs on disguised readings does not know who is in the room.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import understudy as us
from understudy.models.family import Controlled
from understudy.randomizer.causal_guarantee import Beliefs, posteriors

PEOPLE = (0, 4, 10)
ODDS = (0.4, 0.35, 0.25)
STAY = np.array([[0.90, 0.06, 0.04], [0.08, 0.88, 0.04], [0.06, 0.06, 0.88]])  # from one quarter of an hour to the next
PER_HOUR, EVERY, DECISIONS = 12, 3, 40  # readings an hour, readings a decision, decisions in a day of ten hours
READINGS = EVERY * DECISIONS

OUTDOOR, PER_PERSON = 420.0, 240.0  # ppm; ppm an hour that a person adds to 75 m3
LEAK, FAN = 0.3, 6.0  # air changes an hour: of the closed room, and of the fan at full speed
PROCESS, SENSOR = 8.0**2, 10.0**2  # variances, ppm^2
LIMIT = 1000.0  # ppm

LOW, BAND, LEAST = 400.0, 500.0, 0.2  # the fan runs at (reading - LOW) / BAND, at LEAST at least
FIXED = 0.45  # where it stays if nobody steers it
SLOPE = {False: 0.221, True: 0.12}  # nats a unit of cost, by caution: either tells 0.06 nats a decision in the long run


def room(people: float, fan: float) -> us.GaussMarkov:
    """CO2 with so many people and the fan at `fan`, 0 to 1: dx/dt = PER_PERSON people - rate (x - OUTDOOR), sampled."""
    rate = LEAK + FAN * fan
    stays = math.exp(-rate / PER_HOUR)
    rests = OUTDOOR + PER_PERSON * people / rate
    return us.GaussMarkov(stays, 1.0, PROCESS, SENSOR, b=(1.0 - stays) * rests, mean0=500.0, cov0=50.0**2)


ROOM = Controlled(room, PEOPLE[0], FIXED)
FILTER = us.Transform(source=ROOM, target=ROOM)


def step(state: Any, y: float, source: tuple[float, float], target: tuple[float, float]) -> tuple[Any, float]:
    """Disguise one reading; `source` and `target` are people and fan, known before it."""
    return FILTER.step((ROOM.steered(state[0], *source), ROOM.steered(state[1], *target)), y)


def proportional(reading: float | None, k: int) -> float:
    """The position of the fan in whole percent, from the last reading; k is the clock."""
    return FIXED if reading is None else round(100.0 * min(1.0, max(LEAST, (reading - LOW) / BAND))) / 100.0


# Who steers --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scheme:
    """What the fan reacts to, and which position of it the two predictors take.

    "fan" is the true position; "own" the one that the controller would choose on disguised readings; "fixed" none.
    """

    name: str
    raw: float | None  # the share of the raw reading in what the controller sees; None: it sees nothing
    source: str = "fan"
    target: str = "fan"
    cautious: bool = False

    @property
    def leaks(self) -> bool:
        """Whether raw readings reach the pseudo predictor, through the fan."""
        return bool(self.raw) and self.target == "fan"


OPEN = Scheme("nothing", None)
BY_DISGUISED = Scheme("disguised", 0.0)
CAUTIOUS = Scheme("disguised, cautious", 0.0, cautious=True)
HIDDEN = Scheme("raw, fan hidden", 1.0, target="own")
BY_RAW = Scheme("raw, fan public", 1.0)
SCHEMES = (OPEN, BY_DISGUISED, CAUTIOUS, HIDDEN, BY_RAW)
UNTOLD = Scheme("raw, fan in no model", 1.0, source="fixed", target="fixed")  # whitens under a wrong model: no theorem


@cache
def design(cautious: bool = False, slope: float | None = None) -> us.CausalDesign:
    """The randomizer; a cautious one holds four times worse to play fewer people than there are than to play more."""
    family = us.Family(lambda people: room(people, FIXED), values=PEOPLE, prior=ODDS)
    worse = 4.0 if cautious else 1.0
    cost = [[worse * max(0, i - j) + max(0, j - i) for j in PEOPLE] for i in PEOPLE]
    slope = SLOPE[cautious] if slope is None else slope
    return us.design_causal(family, STAY, PEOPLE, slope=slope, decision_every=EVERY, distortion=cost, rng=1)


# The loop ----------------------------------------------------------------------------------------


class Days(NamedTuple):
    """What happened, a row a day: positions in PEOPLE a decision; ppm and positions of the fan a reading."""

    theta: np.ndarray
    pseudo: np.ndarray
    charges: np.ndarray
    co2: np.ndarray
    raw: np.ndarray
    released: np.ndarray
    fan: np.ndarray
    shown: np.ndarray  # the position that the pseudo predictor took


def simulate(
    scheme: Scheme,
    made: us.CausalDesign,
    days: int,
    seed: int,
    controller: Callable[[float | None, int], float] = proportional,
) -> Days:
    """Days of one scheme; people and noises are the same for every scheme of a seed."""
    noises, coins = (np.random.default_rng([seed, part]) for part in range(2))
    theta, pseudo = np.empty((2, days, DECISIONS), dtype=int)
    charges, ppm = np.empty((days, DECISIONS)), np.empty((5, days, READINGS))
    for day in range(days):
        theta[day] = _people(noises)
        w, v = noises.standard_normal((2, READINGS)) * [[math.sqrt(PROCESS)], [math.sqrt(SENSOR)]]
        x = 500.0 + 50.0 * noises.standard_normal()
        state, belief, y, out = FILTER.start(), made.start(), None, None
        for k in range(READINGS):
            i = theta[day, k // EVERY]
            if k % EVERY == 0:
                belief, j, charges[day, k // EVERY] = made.draw(belief, PEOPLE[i], coins)
                pseudo[day, k // EVERY] = j
            # the position for this reading follows from readings before it
            nothing = scheme.raw is None or y is None
            fan = controller(None if nothing else scheme.raw * y + (1.0 - scheme.raw) * out, k)
            position = {"fan": fan, "own": controller(out, k), "fixed": FIXED}
            shown = position[scheme.target]
            system = ROOM.model(PEOPLE[i], fan)
            x = system.A.item() * x + system.b.item() + w[k]
            y = x + v[k]
            state, out = step(state, y, (PEOPLE[i], position[scheme.source]), (PEOPLE[j], shown))
            ppm[:, day, k] = x, y, out, fan, shown
    return Days(theta, pseudo, charges, *ppm)


def _people(rng: np.random.Generator) -> np.ndarray:
    path, odds = np.empty(DECISIONS, dtype=int), np.array(ODDS)
    for k in range(DECISIONS):
        path[k] = rng.choice(len(PEOPLE), p=odds)
        odds = STAY[path[k]]
    return path


# Who listens -------------------------------------------------------------------------------------


class Heard(NamedTuple):
    """Readings that an adversary has, the positions of the fan behind them, and what is known of the others."""

    readings: np.ndarray  # NaN: not known
    fan: np.ndarray
    variance: float = SENSOR
    below: np.ndarray | None = None  # readings that are known to lie below the band of the fan


def listen(scheme: Scheme, days: Days) -> Heard:
    """What the adversary works with: the released readings, or the raw ones where the fan gives them away."""
    if not scheme.leaks:
        return Heard(days.released, days.shown)
    # fan_k+1 = f(y_k), so the next position tells the reading to a percent of the band
    after = np.concatenate([days.fan[:, 1:], np.full((len(days.fan), 1), np.nan)], axis=1)
    below = after <= LEAST
    readings = np.where(below | (after >= 1.0), np.nan, LOW + BAND * after)
    return Heard(readings, days.fan, SENSOR + (BAND / 100.0) ** 2 / 12.0, below)


class Guess(NamedTuple):
    """What an adversary believes: of each theta_k, (days, decisions, values), and the paths that he keeps."""

    theta: np.ndarray
    paths: np.ndarray
    weights: np.ndarray


def attack(heard: Heard, beliefs: Beliefs, kept: int = 4) -> Guess:
    """Bayes' rule over the played paths, by a Kalman filter for each; the `kept` likeliest go on.

    He knows all but the people and the coins. Dropping paths only makes him weaker; with all of them he is exact.
    """
    days, (m, n) = len(heard.readings), beliefs.cost.shape
    day = np.arange(days)[:, None]
    belief = np.tile(beliefs.prior, (days, 1, 1))
    weight, x, P = np.zeros((days, 1)), np.full((days, 1), 500.0), np.full(days, 50.0**2)
    paths, chances = np.zeros((days, 1, 0), dtype=int), np.zeros((days, 1, 0, m))
    for k in range(heard.readings.shape[1] // EVERY):
        kernels = np.array([[beliefs.kernel(b) for b in row] for row in belief.tolist()])
        with np.errstate(divide="ignore"):
            weight = weight[:, :, None] + np.log(np.einsum("dhi,dhij->dhj", belief, kernels))
        x = np.repeat(x[:, :, None], n, axis=2)
        for r in range(EVERY * k, EVERY * (k + 1)):
            x, P, told = _kalman(x, P, heard, r)
            weight = weight + told
        weight, x = weight.reshape(days, -1), x.reshape(days, -1)
        order = np.argsort(-weight, axis=1, kind="stable")[:, :kept]
        weight, x = weight[day, order] - weight[day, order[:, :1]], x[day, order]
        parent, j = np.divmod(order, n)
        new = kernels[day, parent, :, j]
        paths = np.concatenate([paths[day, parent], j[:, :, None]], axis=2)
        chances = np.concatenate([chances[day, parent], new[:, :, None, :]], axis=2)
        # a path that cannot be goes on with weight zero, and any belief
        belief = np.where(weight[:, :, None] > -np.inf, belief[day, parent] * new, 1.0)
        belief = (belief / belief.sum(axis=2, keepdims=True)) @ beliefs.transitions[k % beliefs.period]
    share = np.exp(weight) / np.exp(weight).sum(axis=1, keepdims=True)
    theta = np.zeros((days, paths.shape[2], m))
    for h in range(paths.shape[1]):
        can = share[:, h] > 0.0
        seen = posteriors(chances[can, h].transpose(1, 0, 2), beliefs.prior, beliefs.transitions)
        theta[can] += share[can, h, None, None] * seen.smoothing.transpose(1, 0, 2)
    return Guess(theta, paths, share)


def _kalman(x: np.ndarray, P: np.ndarray, heard: Heard, r: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One reading for all days, paths and played values: means, their variance, and the log-likelihoods."""
    from scipy.special import log_ndtr

    rate = LEAK + FAN * heard.fan[:, r, None]
    stays = np.exp(-rate / PER_HOUR)
    move = (1.0 - stays) * (OUTDOOR + PER_PERSON * np.array(PEOPLE) / rate)
    x = stays[:, :, None] * x + move[:, None, :]
    P = stays[:, 0] ** 2 * P + PROCESS
    S = P + heard.variance
    y, there = heard.readings[:, r], ~np.isnan(heard.readings[:, r])
    e = np.where(there[:, None, None], y[:, None, None] - x, 0.0)
    S3 = S[:, None, None]
    told = np.where(there[:, None, None], -0.5 * e * e / S3 - 0.5 * np.log(S3), 0.0)
    if heard.below is not None:
        edge = LOW + BAND * (LEAST + 0.005)
        told = np.where(heard.below[:, r, None, None], log_ndtr((edge - x) / np.sqrt(S3)), told)
    gain = np.where(there, P / S, 0.0)
    return x + gain[:, None, None] * e, (1.0 - gain) * P, told


def likelihoods(made: us.CausalDesign, pseudo: np.ndarray) -> np.ndarray:
    """The probability of each draw had the people been so many, (decisions, days, values)."""
    found = np.empty((pseudo.shape[1], len(pseudo), len(PEOPLE)))
    for day, path in enumerate(pseudo):
        state = made.start()
        for k, j in enumerate(path):
            kernel = made.beliefs.kernel(state.belief)
            found[k, day] = kernel[:, j]
            state = made.beliefs.after(state, kernel, j)
    return found


def seeing_pseudo(made: us.CausalDesign, pseudo: np.ndarray) -> np.ndarray:
    """What somebody who sees the pseudo people believes of each theta_k: nobody who sees less does better."""
    seen = posteriors(likelihoods(made, pseudo), made.beliefs.prior, made.beliefs.transitions)
    return seen.smoothing.transpose(1, 0, 2)


def exposed() -> Beliefs:
    """The source itself, as one that plays the truth: for an adversary who has raw readings."""
    return Beliefs(ODDS, STAY, 1.0 - np.eye(len(PEOPLE)), math.inf)


def entropy_of_a_day() -> float:
    """Nats in the path of the people over a day."""

    def h(p: np.ndarray) -> float:
        return -float((p * np.log(p)).sum())

    odds, total = np.array(ODDS), h(np.array(ODDS))
    for _ in range(DECISIONS - 1):
        total += float(odds @ [h(row) for row in STAY])
        odds = odds @ STAY
    return total


def told_at_least(guess: Guess, theta: np.ndarray) -> float:
    """Nats a day that the adversary has for certain: I >= H(Theta) + E log q(Theta given his), for any q."""
    start, moves = np.log(ODDS), np.log(STAY)
    prior = start[theta[:, 0]] + moves[theta[:, :-1], theta[:, 1:]].sum(axis=1)
    mine = ((guess.paths == theta[:, None, :]).all(axis=2) * guess.weights).sum(axis=1)
    return entropy_of_a_day() + float(np.log(0.99 * mine + 0.01 * np.exp(prior)).mean())


# The table ---------------------------------------------------------------------------------------


class Row(NamedTuple):
    """One scheme: what it tells, and what it costs."""

    name: str
    told: float  # nats a day: at most so many where the theorem holds, at least so many where it does not
    at_least: bool
    right: float  # how often the adversary has the people right
    pseudo: float  # how often somebody who sees the pseudo people themselves has
    above: float  # share of time above the limit
    excess: float  # mean ppm above it
    air: float  # air changes an hour by the fan
    power: float  # of the fan, cube of its speed, mean, of full


def judge(scheme: Scheme, days: Days, made: us.CausalDesign) -> Row:
    """The row of one scheme."""
    guess = attack(listen(scheme, days), exposed() if scheme.leaks else made.beliefs)
    seen = seeing_pseudo(made, days.pseudo)
    over = np.maximum(days.co2 - LIMIT, 0.0)
    return Row(
        scheme.name,
        told_at_least(guess, days.theta) if scheme.leaks else made.expected_leakage(DECISIONS),
        scheme.leaks,
        float((guess.theta.argmax(axis=2) == days.theta).mean()),
        float((seen.argmax(axis=2) == days.theta).mean()),
        float((over > 0.0).mean()),
        float(over.mean()),
        float(FAN * days.fan.mean()),
        float((days.fan**3).mean()),
    )


def table(days: int = 30, seed: int = 1) -> tuple[list[Row], dict[str, Days]]:
    """All schemes on the same days."""
    played = {s.name: simulate(s, design(s.cautious), days, seed) for s in SCHEMES}
    return [judge(s, played[s.name], design(s.cautious)) for s in SCHEMES], played


def text(rows: list[Row]) -> str:
    """The table as text."""
    nats = f"of {entropy_of_a_day():.1f} nats"
    head = "{:<22} {:>13} {:>9} {:>9} {:>10} {:>8} {:>12} {:>10}".format
    lines = [
        head("", "leak a day", "right by", "right by", "above", "excess", "air changes", "fan power"),
        head("fan reacts to", nats, "~y, fan", "~people", "1000 ppm", "ppm", "an hour", "of full"),
    ]
    return "\n".join(lines + [line(r) for r in rows])


def line(r: Row) -> str:
    """One row of it."""
    told = f"{'>=' if r.at_least else '<='} {r.told:.1f}"
    costs = f"{r.above:10.1%} {r.excess:8.0f} {r.air:12.2f} {r.power:10.1%}"
    return f"{r.name:<22} {told:>13} {r.right:9.0%} {r.pseudo:9.0%} {costs}"


def main() -> None:
    """Print the table; draw if asked."""
    parser = argparse.ArgumentParser(description="Ventilation on demand: what is told, and what it costs.")
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plot", type=Path, help="write a figure there")
    asked = parser.parse_args()
    rows, played = table(asked.days, asked.seed)
    print(text(rows))
    if asked.plot is not None:
        import matplotlib as mpl

        mpl.use("Agg")  # files only, no window
        from matplotlib import pyplot as plt

        figure, ax = plt.subplots(figsize=(7.0, 4.2), layout="constrained")
        draw_day(ax, played)
        figure.savefig(asked.plot, dpi=150)
        print(f"Figure written to {asked.plot}")


def draw_day(ax: Any, played: dict[str, Days], day: int = 0) -> None:
    """One day with the fan on disguised readings: what leaves the room, what is in it, and what would have been."""
    hours = np.arange(1, READINGS + 1) / PER_HOUR
    by_disguised, by_raw = played[BY_DISGUISED.name], played[BY_RAW.name]
    ax.plot(hours, by_disguised.released[day], color="#d7702a", lw=1.4, label="released, steers the fan")
    ax.plot(hours, by_disguised.co2[day], color="#2b83ba", lw=1.8, label="in the room")
    ax.plot(hours, by_raw.co2[day], color="#2b83ba", lw=1.0, ls=":", label="in the room, fan on raw readings")
    ax.axhline(LIMIT, color="#999999", lw=0.8, ls="--")
    ax.set(xlabel="hours", ylabel="CO2, ppm", title="A day, the fan on disguised readings", ylim=(350.0, 1600.0))
    ax.legend(frameon=False, loc="upper left", fontsize=8)


if __name__ == "__main__":
    main()
