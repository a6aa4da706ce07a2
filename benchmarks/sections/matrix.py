"""Four states, three outputs: the generic matrix loops against statsmodels' compiled filter."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec

import numpy as np

import understudy as us
from benchmarks.harness import Contender, Required, Row, Section, compared, race, row, samples_for
from benchmarks.peers import statsmodels_peer, straightforward
from benchmarks.systems import SOURCE_4_3, TARGET_4_3

OURS = "understudy.disguise"
PEERS = {
    "statsmodels, two `KalmanFilter`s": ("statsmodels", statsmodels_peer.filters, Required(150)),
    "statsmodels, quickest way": ("statsmodels", statsmodels_peer.quickest, Required(150)),
    "straightforward numpy": ("numpy", straightforward.disguise, None),
}


def run(quick: bool) -> Section:
    """A sample is one step, that is three readings."""
    T, budget, rounds = (200_000, 0.5, 5) if quick else (2_000_000, 10.0, 10)
    source, target = SOURCE_4_3.model(), TARGET_4_3.model()
    Y = us.sample(source, T, rng=np.random.default_rng(3))
    contenders = [Contender(OURS, partial(us.disguise, Y, source=source, target=target), T)]
    missing = []
    for name, (package, peer, _) in PEERS.items():
        if find_spec(package) is None:
            missing.append(Row(name, "", "not installed", ""))
            continue
        work = partial(peer, source=SOURCE_4_3, target=TARGET_4_3)
        work(Y[:64])
        samples = samples_for(lambda n, work=work: work(Y[:n]), budget, T)
        contenders.append(Contender(name, partial(work, Y[:samples]), samples, rounds=3))
    timings = race(contenders, rounds)
    ours = timings.pop(OURS)
    rows = [row(ours)]
    for name, timing in timings.items():
        ratio = timing.best / ours.best
        rows.append(row(timing, ratio, required=PEERS[name][2], **compared(ours.output, timing.output)))
    return Section(
        "4 states, 3 outputs",
        "speed: peer's time / understudy's time, per step",
        rows + missing,
        ["The two ways through statsmodels are those of the scalar table."],
    )
