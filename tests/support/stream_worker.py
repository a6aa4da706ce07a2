"""A process that feeds a stream from a ledger and may be killed at any moment; used by test_kill."""

import sys

import numpy as np

import understudy as us


def room(people):
    return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * people, mean0=100.0, cov0=1.0)


def design():
    return us.design(us.Family(room, values=[0, 1]), pseudo=[0, 0.5, 1], leakage=0.3, horizon=50, distortion="mae")


def main(path, guard, batch, total, epoch):
    """Go on from where the ledger stands; say what was released, a line each, in a file that only grows."""
    Y = us.sample(room(1), total, rng=9)
    stream = design().stream(1, us.Ledger(path, rollback_guard=guard), "a", epoch=epoch or None)
    print("ready", flush=True)
    at = stream.count
    with open(path + ".released", "a", encoding="ascii") as released:
        while at < total:
            stop = min(at + batch, total)
            out = stream.apply(Y[at:stop], keys=range(at, stop))
            released.write("".join(f"{at + i} {float(y).hex()}\n" for i, y in enumerate(np.atleast_1d(out))))
            released.flush()
            at = stop
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
