"""Designs that need no new model: by the public clock, and by a coin. Both learn from training days alone.

*Clock.* At zero budget the output follows the routine of the training days. What counts is the gain of the best
adversary who has the clock and the output over one who has the clock alone.

*Coin.* A day is an epoch, at a random phase. Who is right with balanced accuracy a on raw readings and with one half on
a constant is right with a - (a - 1/2) q on those of a coin with probability q, if he sees which epochs are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import understudy as us
from studies.real_data.study import Row, Stage, Subject, history_at, search_of, subjects
from understudy.adversaries.datasets import DesignRun, from_history
from understudy.adversaries.tuning import Piece, complete, distortion_of
from understudy.identify.fit import align

ADVERSARIES = ("windowed", "logistic", "boosting")
MODEL = "AR(2), Student-t by class"
"""The class of the office that was chosen on its training file."""
SHARES = (0.0, 0.25, 0.5, 0.75)


def by_the_clock(root: Path, seeds: int = 5) -> dict[str, Row]:
    """The office at 15 min and the first classroom: distortion in percent, the clock alone, and the gain over it."""
    found: dict[str, Row] = {}
    for name in ("candanedo", "sdu 1"):
        subject = subjects(root)[name]()
        train, resampling = history_at(subject, subject.train, 900.0)
        family = search_of(subject, 1).fit(train, train, MODEL, resampling)[0]
        design = us.design_causal(family, clock=True, rate=0.0, distortion="mae", horizon=96)
        learn = from_history(complete(align(train, family)), family)
        for test, frame in subject.tests.items():
            recording = from_history(complete(align(history_at(subject, frame(), 900.0)[0], family)), family)
            rows = [_audit(design, recording, learn, seed) for seed in range(seeds)]
            found[f"{name} {test}"] = {
                key: [round(float(f([row[key] for row in rows])), 4) for f in (np.mean, np.min, np.max)]
                for key in rows[0]
            }
    return found


def _audit(design: Any, recording: Any, train: Any, seed: int) -> dict[str, float]:
    audit = us.audit(
        design, recording, train=train, adversaries=list(ADVERSARIES), rng=seed, replicates=1, noise=False,
        utility=False,
    )  # fmt: skip
    gain = {
        data: max(row.gain.value for row in audit.rows if row.clock and row.data == data and row.adversary != "clock")
        for data in ("disguised", "raw")
    }
    clock = next(row for row in audit.rows if row.adversary == "clock" and row.data == "disguised")
    percent = 100.0 * audit.distortion[0].value / audit.mean_reading[0]
    return {"percent": percent, "clock alone": clock.balanced.value, "gain": gain["disguised"], "raw gain": gain["raw"]}


def by_a_coin(
    subject: Subject, test: str, shares: Sequence[float] = SHARES, seeds: int = 200, copies: int = 8
) -> list[Row]:
    """For each share q of hidden days: the best adversary over so many coins, and the distortion in percent."""
    period = 300.0
    stage = Stage(subject, subject.tests[test](), period)
    family = stage.family(MODEL)
    level = float(np.median(np.concatenate([s.Y for s in complete(stage.train).segments])))
    about = {
        "readings": [subject.columns.reading], "private": subject.columns.private, "time": subject.columns.time,
        "segment": None, "public": None, "period": period, "resampling": {"how": "mean"}, "bins": None, "grid": None,
    }  # fmt: skip
    rows = []
    for q in shares:
        design = us.design_coin(q=q, constant=level, values=list(family.values), resolution=2.0**-10, about=about)
        run, rng = DesignRun(design, round(86_400 / period)), np.random.default_rng([1, round(1000 * q)])
        learn, judge = (
            [
                Piece(fold, s, stage.days(s), run.run(np.array(s.Y), s.theta, rng).output)
                for s in complete(history).segments
                for _ in range(count)
            ]
            for fold, history, count in ((0, stage.train, copies), (-1, stage.test, seeds))
        )
        learners = {name: learner for name, learner in stage.learners.items() if name != "hmm"}
        name, accuracy, low, high = stage.search.judge(family, learn, judge, learners)
        rows.append(
            {
                "q": q, "coins": seeds, "adversary": name, "balanced": round(accuracy, 4),
                "interval": [round(low, 4), round(high, 4)], "percent": round(100.0 * distortion_of(judge), 2),
            }
        )  # fmt: skip
    return rows
