"""Child process of `step.py`: time `Transform.step` with the kernels the environment selects; print JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

import understudy as us
from benchmarks.machine import kernels
from benchmarks.systems import SOURCE, TARGET

SAMPLES = 100_000


def main() -> None:
    """Step through the same readings several times, then once more to compare."""
    source, target = SOURCE.model(), TARGET.model()
    Y = us.sample(source, SAMPLES, rng=np.random.default_rng(6))
    readings = Y.tolist()
    transform = us.Transform(source, target)
    step = transform.step
    seconds = []
    for _ in range(7):
        state = transform.start()
        start = perf_counter()
        for y in readings:
            state, out = step(state, y)
        seconds.append((perf_counter() - start) / SAMPLES)
    state, outputs = transform.start(), []
    for y in readings:
        state, out = step(state, y)
        outputs.append(float(out))
    apart = float(np.max(np.abs(np.array(outputs) - us.disguise(Y, source=source, target=target))))
    print(
        json.dumps(
            {
                "seconds": seconds,
                "samples": SAMPLES,
                "kernels": kernels(),
                "apart": apart,
                "last": outputs[-100:],
            }
        )
    )


if __name__ == "__main__":
    main()
