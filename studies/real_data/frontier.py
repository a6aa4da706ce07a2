"""From a room to its frontier: fit, premise, disguises at every budget, rivals of equal distortion, and adversaries."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from studies.real_data import attacking, disguising, extras, rooms
from studies.real_data.premise import premise, score_attack
from studies.real_data.rooms import Room
from understudy._types import Array
from understudy.adversaries.knowledge import Knowledge as Knowledge
from understudy.identify.history import History
from understudy.models.family import Family

Told = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Budgets:
    """What is tried in one room, and how thoroughly."""

    rates: Mapping[float, Sequence[float]]
    """Minutes between decisions -> nats a day."""
    epochs: Mapping[float, Sequence[float]]
    """Minutes of an epoch -> nats an epoch."""
    adversaries: Any = ("windowed", "logistic", "neighbours", "changes", "hmm")
    replicates: int = 2
    horizon: int = 96
    noise: tuple[float, ...] | None = None
    """Nats a day at which noise of equal distortion is tried too; None is all."""
    controls: tuple[float, ...] = (0.0,)
    """Nats a day at which the same is done on readings that the family itself would have made."""
    insider: str | None = None
    """The test recording on which an adversary with labels of its own first half is tried too."""
    estimated: tuple[float, ...] = ()
    """Nats a day at which the private value is estimated from the readings rather than told."""
    fresh: Mapping[float, Sequence[float]] = field(default_factory=dict)
    """Shares of fresh chance in the scores -> nats a day at which they are tried."""
    seed: int = 2015


def studied(room: Room, budgets: Budgets, told: Told = lambda share: None) -> dict[str, Any]:
    """Everything about one room, as JSON can hold it."""
    rng = np.random.default_rng(budgets.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = rooms.fitted(room, lambda share: told(0.25 * share))
        family: Family = found.family_
        histories = {"train": rooms.read(room.train, family)}
        histories |= {name: rooms.read(frame, family) for name, frame in room.tests.items()}
        record = described(room, found, histories)
        work = _Work(room, family, histories, budgets, rng)
        record["premise"] = work.premises()
        told(0.35)
        plans = work.plans()
        record["cost"] = {"matrix": np.round(work.cost, 4).tolist(), "weights": np.round(work.weights, 6).tolist()}
        record["raw"] = work.raw()
        record["points"] = []
        made = {name: work.disguised(history, work.z[name], plans) for name, history in histories.items()}
        for k, plan in enumerate(plans):
            told(0.4 + 0.55 * k / len(plans))
            record["points"].append(work.point(plan, made["train"][k], {name: made[name][k] for name in room.tests}))
        record["fresh"] = [
            work.freshened(plan, share) for share, nats in budgets.fresh.items() for plan in work.at(plans, nats)
        ]
        record["controls"] = [work.control(plan) for plan in work.at(plans, budgets.controls)]
        record["estimated"] = [work.estimated(plan) for plan in work.at(plans, budgets.estimated)]
    told(1.0)
    return record


def described(room: Room, made: Any, histories: Mapping[str, History]) -> dict[str, Any]:
    """The fit, in figures."""
    family, about = made.family_, made.family_.about
    rows = [
        {"name": row.name, "score": row.score, "behind": row.behind, "usable": row.usable} for row in made.table_.rows
    ]
    gate = made.gate_
    return {
        "name": room.name,
        "readings": list(about["readings"]),
        "units": list(room.units),
        "private": room.private,
        "values": [str(value) for value in family.values],
        "period": about["period"],
        "model": about["model"]["name"],
        "reason": about["model"]["reason"],
        "table": rows,
        "notes": list(made.notes_),
        "prior": np.round(family.prior, 4).tolist(),
        "transition": np.round(disguising.transition(family), 6).tolist(),
        "gate": None
        if gate is None
        else {
            "passed": gate.passed,
            "failed": len(gate.failed),
            "tests": len(gate.verdicts),
            "outcome": gate.outcome,
            "told": score_attack(gate),
        },
        "recordings": {
            name: {
                "rows": history.rows,
                "segments": len(history.segments),
                "mean": np.round(history.stack().mean(axis=0), 4).tolist(),
                "shares": np.round(history.counts / history.counts.sum(), 4).tolist(),
            }
            for name, history in histories.items()
        },
    }


class _Work:
    """What the steps of one room share."""

    def __init__(
        self, room: Room, family: Family, histories: dict[str, History], budgets: Budgets, rng: np.random.Generator
    ) -> None:
        self.room, self.family, self.histories, self.budgets, self.rng = room, family, histories, budgets, rng
        self.period = float(histories["train"].period or 60.0)
        self.day = 86_400.0 / self.period
        R = budgets.replicates
        # scores differ between replicates by the auxiliary uniforms alone, where readings are on a grid
        self.z = {
            name: [disguising.scores(family, history, rng=int(rng.integers(1 << 31))) for _ in range(R)]
            for name, history in histories.items()
        }
        Y = histories["train"].stack()
        spread = np.std(Y, axis=0)
        self.weights = np.ones(1) if family.dim == 1 else 1.0 / spread / family.dim
        self.cost = np.empty((0, 0))
        self.within = disguising.limits(histories["train"])

    def disguised(self, history: History, z: Any, plans: Sequence[disguising.Plan]) -> list[disguising.Disguised]:
        """Disguises of one recording by several plans."""
        return disguising.disguised(self.family, history, z, plans, self.rng, self.within)

    def premises(self) -> dict[str, Any]:
        """The premise on every test recording."""
        from understudy.identify.selection import log_densities

        models = {value: self.family.model(value) for value in self.family.values}
        found = {}
        for name in self.room.tests:
            history = self.histories[name]
            segments = tuple(_own(self.family, segment, self.rng) for segment in history.segments)
            own = replace(history, segments=segments)
            found[name] = premise(self.family, history, self.z[name][0], log_densities(models, own))
        return found

    def plans(self) -> list[disguising.Plan]:
        """All designs of the room; the cost matrix is found once."""
        self.cost = disguising.costs(self.family, self.budgets.horizon, self.weights)
        plans = []
        for minutes, rates in self.budgets.rates.items():
            every = max(1, round(60.0 * minutes / self.period))
            for a_day in rates:
                rate = a_day * every / self.day
                made = disguising.causal(self.family, self.cost, every, rate, self.rng)
                plans.append(replace(made, asked=a_day))
        for minutes, leakages in self.budgets.epochs.items():
            every = max(1, round(60.0 * minutes / self.period))
            made_at = [(leakage, disguising.epochs(self.family, self.cost, every, leakage)) for leakage in leakages]
            plans += [replace(made, asked=leakage) for leakage, made in made_at]
        return plans

    def at(self, plans: Sequence[disguising.Plan], wanted: Sequence[float]) -> list[disguising.Plan]:
        """The causal plans with the shortest time between decisions at these nats a day; infinity is the true value."""
        return [plan for plan in plans if self._leading(plan) and any(_near(plan.asked, w) for w in wanted)]

    def known(self, plan: disguising.Plan | None, noise: Array | None = None) -> Knowledge:
        """What an adversary knows of a plan; without one, of raw readings."""
        m = len(self.family.values)
        kernel = np.eye(m) if plan is None else plan.kernel
        T = disguising.transition(self.family)
        design = None if plan is None else plan.design
        every = None if plan is None else plan.every
        return Knowledge(self.family, self.family.values, kernel, self.family.prior, T, every, self._grid(), design,
                     raw=plan is None, noise=noise)  # fmt: skip

    def _grid(self) -> tuple[Array, Array] | None:
        about: Any = self.family.about
        cells = about["grid"]
        if not cells or not all(cells):
            return None
        return np.array([c["step"] for c in cells]), np.array([c["offset"] for c in cells])

    def _cases(self, name: str, outputs: Sequence[Array], pseudo: Any = None) -> Any:
        return attacking.cases(self.room, self.histories[name], outputs, pseudo)

    def raw(self) -> dict[str, Any]:
        """Adversaries on raw readings."""
        outputs = {name: [s.Y[:, :, None] for s in history.segments] for name, history in self.histories.items()}
        found = attacking.attack(
            self._cases("train", outputs["train"]),
            {name: self._cases(name, outputs[name]) for name in self.room.tests},
            self.known(None),
            self.budgets.adversaries,
            self.rng,
        )
        return found | self._insider(None, outputs)

    def _leading(self, plan: disguising.Plan) -> bool:
        """Whether everything is tried on the plan: a causal one with the shortest time between decisions."""
        return plan.kind == "causal" and plan.every == max(1, round(60.0 * min(self.budgets.rates) / self.period))

    def _insider(self, plan: disguising.Plan | None, outputs: Mapping[str, Sequence[Array]]) -> dict[str, Any]:
        """The adversary with labels of the test recording's own first half, where one is asked for."""
        name = self.budgets.insider
        if name is None or not (plan is None or self._leading(plan)):
            return {}
        known = self.known(plan)
        rows = extras.insider(self.room, self.histories[name], outputs[name], known, self.budgets.adversaries, self.rng)
        return {f"{name}, insider": rows}

    def point(self, plan: disguising.Plan, train: Any, tests: Mapping[str, Any]) -> dict[str, Any]:
        """Adversaries on what one plan made, and on noise of equal distortion."""
        rows = attacking.attack(
            self._cases("train", train.outputs, train.pseudo),
            {name: self._cases(name, made.outputs, made.pseudo) for name, made in tests.items()},
            self.known(plan),
            self.budgets.adversaries,
            self.rng,
            clock=self._leading(plan),
        )
        rows |= self._insider(plan, {name: made.outputs for name, made in tests.items()})
        sizes = {name: disguising.distortion(self.histories[name], made.outputs) for name, made in tests.items()}
        found: dict[str, Any] = {
            **self.named(plan),
            "charged_a_day": {name: round(made.nats, 4) for name, made in tests.items()},
            "told_true": _agreement(tests, self.histories),
            "distortion": {name: np.round(size, 4).tolist() for name, size in sizes.items()},
            "percent": {
                name: np.round(100.0 * size / np.abs(self.histories[name].stack().mean(axis=0)), 3).tolist()
                for name, size in sizes.items()
            },
            "rows": rows,
        }
        if self.at([plan], (plan.asked,) if self.budgets.noise is None else self.budgets.noise):
            found["noise"] = {
                how: self.noise(disguising.distortion(self.histories["train"], train.outputs), sizes, slow)
                for how, slow in (("white", 0.0), ("slow", self._slow()))
            }
        return found

    def freshened(self, plan: disguising.Plan, share: float) -> dict[str, Any]:
        """The same plan with fresh chance in the scores: what a wrong model leaves in them is drowned, at a price."""
        made = {}
        for name, history in self.histories.items():
            z = [[disguising.mixed(part, share, self.rng) for part in parts] for parts in self.z[name]]
            made[name] = self.disguised(history, z, [plan])[0]
        return {"share": share, **self.point(plan, made["train"], {name: made[name] for name in self.room.tests})}

    def _slow(self) -> float:
        """The coefficient of noise that is as slow as the room: half of it is gone in an hour."""
        return float(0.5 ** (self.period / 3600.0))

    def noise(self, at: Array, sizes: Mapping[str, Array], slow: float) -> dict[str, Any]:
        """Adversaries on raw readings with noise, as large in each recording as what the disguise changed there."""
        if not float(np.max(at)) > 0.0:
            return {}
        R, rng = self.budgets.replicates, self.rng
        train = self._cases("train", disguising.noisy(self.histories["train"], at, slow, R, rng))
        tests = {
            name: self._cases(name, disguising.noisy(self.histories[name], size, slow, R, rng))
            for name, size in sizes.items()
        }
        known = self.known(None, noise=at * math.sqrt(math.pi / 2.0))
        return attacking.attack(train, tests, known, self.budgets.adversaries, rng, clock=False)

    def control(self, plan: disguising.Plan) -> dict[str, Any]:
        """The same plan where the model is right: scores are fresh normals, everything else stays."""
        z = {
            name: [
                [self.rng.standard_normal(s.Y.shape) for s in history.segments] for _ in range(self.budgets.replicates)
            ]
            for name, history in self.histories.items()
        }
        made = {name: self.disguised(history, z[name], [plan])[0] for name, history in self.histories.items()}
        rows = attacking.attack(
            self._cases("train", made["train"].outputs),
            {name: self._cases(name, made[name].outputs) for name in self.room.tests},
            self.known(plan),
            self.budgets.adversaries,
            self.rng,
            clock=False,
        )
        sizes = {name: self._against_own(made[name], z[name], self.histories[name]) for name in self.room.tests}
        return {**self.named(plan), "rows": rows, "distortion": sizes}

    def _against_own(self, made: Any, z: Any, history: History) -> list[float]:
        """Distortion of a control: from the readings that the family itself would have made."""
        total = np.zeros(self.family.dim)
        for k, segment in enumerate(history.segments):
            scores = np.stack([part[k] for part in z], axis=2)
            which = np.repeat(segment.theta[:, None], scores.shape[2], axis=1)
            own = np.clip(disguising.coloured(scores, self.family, which), *(end[:, None] for end in self.within))
            total += np.abs(made.outputs[k] - own).mean(axis=2).sum(axis=0)
        return [round(float(x), 4) for x in total / history.rows]

    def estimated(self, plan: disguising.Plan) -> dict[str, Any]:
        """The same plan where nobody tells theta: the filter goes by its own estimates. No theorem holds."""
        made, right = {}, {}
        for name, history in self.histories.items():
            blind, right[name] = extras.as_estimated(self.family, history)
            z = [disguising.scores(self.family, blind, rng=int(self.rng.integers(1 << 31)))]
            made[name] = self.disguised(blind, z, [plan])[0]
        rows = attacking.attack(
            self._cases("train", made["train"].outputs),
            {name: self._cases(name, made[name].outputs) for name in self.room.tests},
            self.known(plan),
            self.budgets.adversaries,
            self.rng,
            clock=False,
        )
        sizes = {n: disguising.distortion(self.histories[n], made[n].outputs).tolist() for n in self.room.tests}
        return {**self.named(plan), "rows": rows, "right": right, "distortion": sizes}

    def named(self, plan: disguising.Plan) -> dict[str, Any]:
        """What a plan is called on the page."""
        return {
            "kind": plan.kind,
            "minutes": plan.every * self.period / 60.0,
            "asked": plan.asked if math.isfinite(plan.asked) else None,
            "nats_a_day": round(plan.nats * self.day / plan.every, 4),
        }


def _near(x: float, wanted: float) -> bool:
    return x == wanted or abs(x - wanted) <= 1e-9


def _own(family: Family, segment: Any, rng: np.random.Generator) -> Any:
    """The segment with readings that the family itself would have made along its labels."""
    from understudy.identify.history import Segment

    z = rng.standard_normal((*segment.Y.shape, 1))
    Y = disguising.coloured(z, family, segment.theta[:, None])[:, :, 0]
    return Segment(segment.name, segment.times, Y, segment.theta)


def _agreement(tests: Mapping[str, Any], histories: Mapping[str, History]) -> dict[str, float]:
    """Share of readings at which the pseudo value played is the true one."""
    found = {}
    for name, made in tests.items():
        pairs = zip(histories[name].segments, made.pseudo, strict=True)
        found[name] = round(float(np.concatenate([(p == s.theta[:, None]).ravel() for s, p in pairs]).mean()), 4)
    return found
