"""What the tests of the causal randomizer share: a persistent bit, and the paper's room with one."""

from helpers import room

import understudy as us
from understudy.randomizer.causal import design_causal

ALPHA = 1e-6
HAMMING = [[0.0, 1.0], [1.0, 0.0]]
STAY = [[0.95, 0.05], [0.05, 0.95]]


def level(v):
    return us.IID(us.Gaussian(float(v), 1.0))


def bits(prior=None):
    return us.Family(level, values=[0, 1], prior=prior)


def room_design():
    return design_causal(us.Family(room, [0, 1]), STAY, [0, 0.5, 1], rate=0.05, horizon=50, distortion="mae")
