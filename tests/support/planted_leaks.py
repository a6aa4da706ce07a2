"""Leaks that are planted on purpose, and their honest twins: five ways to get a disguise wrong.

A `way`(Y, i, j, rng) makes outputs (T, d, N) of raw readings of the private value of row i, played as the pseudo value
of column j.
"""

import numpy as np

import understudy as us
from understudy.models.family import Controlled
from understudy.models.quantised import Quantised

# Only the mean is moved ------------------------------------------------------------------------------


def noisy_room(v):
    """Theta is in the level and in the noise."""
    return us.GaussMarkov(0.9, 1.0, 0.5 * (1.0 + v), 0.5 * (1.0 + v), b=5.0 + v, mean0=50.0, cov0=1.0)


def moved(design):
    """The mean of theta is replaced by that of the pseudo value, and the noise stays."""

    def way(Y, i, j, rng):
        still = np.zeros((len(Y), 1, 2))
        mean, other = (us.colour(still, noisy_room(v))[:, :, :1] for v in (design.values[i], design.pseudo[j]))
        return Y - mean + other

    return way


# A float map of a grid -------------------------------------------------------------------------------

GRID_PSEUDO = [0.3, 0.7]


def ppm_room(v):
    """Readings of some hundred ppm, whose noise is several ppm wide."""
    return us.GaussMarkov(0.9 - 0.1 * v, 1.0, 20.0 + 10.0 * v, 5.0, b=60.0 + v, mean0=600.0, cov0=25.0)


def ungridded(Y, i, j, rng):
    """Whole ppm, mapped as if they were not."""
    return us.disguise(np.round(Y), ppm_room(i), ppm_room(GRID_PSEUDO[j]))


def in_cells(Y, i, j, rng):
    """Whole ppm, cell by cell: the honest twin."""
    return us.disguise(np.round(Y), Quantised(ppm_room(i), 1.0), Quantised(ppm_room(GRID_PSEUDO[j]), 1.0), rng=rng)


class Coin:
    """A design that draws either of two pseudo values, whatever theta is."""

    def __init__(self, design):
        self.prior, self.values, self.family = design.prior, design.values, design.family
        self.pseudo = tuple(GRID_PSEUDO)
        self.randomizer = us.Randomizer(np.full((2, 2), 0.5))


# A draw after every restart --------------------------------------------------------------------------

RUN = 4  # readings from one restart to the next


def quick_room(v):
    """A room that tells the value within a few readings."""
    return us.GaussMarkov(0.7, 1.0, 0.3, 0.1, b=15.0 + 3.0 * v, mean0=50.0, cov0=1.0)


def restarted(design):
    """A restart every four readings, and a draw after each."""
    ends = np.cumsum(design.randomizer.kernel, axis=1)

    def way(Y, i, j, rng):
        source, out = quick_room(design.values[i]), np.empty(Y.shape)
        for s in range(Y.shape[2]):
            drawn = (rng.random(len(Y) // RUN)[:, None] >= ends[i]).sum(axis=1)
            path = [design.pseudo[k] for k in drawn.repeat(RUN)]
            out[:, :, s] = us.disguise(Y[:, :, s], source, design.family.along(path))
        return out

    return way


# Sensors that are disguised apart --------------------------------------------------------------------


def pair(v):
    """Two channels whose disturbances go together the more, the greater theta is."""
    return us.GaussMarkov(
        0.8 * np.eye(2), np.eye(2), np.array([[1.0, 0.7 * v], [0.7 * v, 1.0]]), 0.1 * np.eye(2),
        b=np.array([4.0 + v, 2.0]), mean0=np.array([20.0, 10.0]), cov0=np.eye(2),
    )  # fmt: skip


def sensor(v, channel):
    """One of them alone: an exact marginal."""
    b, mean = ((4.0 + v, 20.0), (2.0, 10.0))[channel]
    return us.GaussMarkov(0.8, 1.0, 1.0, 0.1, b=b, mean0=mean, cov0=1.0)


def apart(design):
    """Each channel through its own filter."""

    def way(Y, i, j, rng):
        out = np.empty(Y.shape)
        for c in range(2):
            source, target = sensor(design.values[i], c), sensor(design.pseudo[j], c)
            out[:, c : c + 1] = us.disguise(Y[:, c : c + 1], source, target)
        return out

    return way


# An actuator as an input -----------------------------------------------------------------------------

OPENS = 105.0


def aired_room(people, flow=0.0):
    """A damper takes air out of the room."""
    return us.GaussMarkov(0.9 - 0.4 * flow, 1.0, 1.0, 0.2, b=9.0 + 4.0 * people, mean0=100.0, cov0=1.0)


def aired(people, pseudo, T, rng, raw_damper):
    """What leaves a room whose damper reacts to its raw readings: (T,).

    The source follows that damper, as it must. The target follows it too, which is the leak, or else a damper that
    reacts to the disguised readings.
    """
    model = Controlled(aired_room, 0, 0.0)
    transform = us.Transform(source=model, target=model)
    x, (source, target) = 100.0 + rng.standard_normal(), transform.start()
    flow, shown, out = 0.0, 0.0, np.empty(T)
    for k in range(T):
        x = (0.9 - 0.4 * flow) * x + 9.0 + 4.0 * people + rng.standard_normal()
        y = x + np.sqrt(0.2) * rng.standard_normal()
        state = model.steered(source, people, flow), model.steered(target, pseudo, flow if raw_damper else shown)
        (source, target), out[k] = transform.step(state, float(y))
        flow, shown = float(y > OPENS), float(out[k] > OPENS)
    return out
