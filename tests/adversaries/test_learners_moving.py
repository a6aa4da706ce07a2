"""Where theta moves: what each learner finds of a planted dependence, and nothing where there is none."""

import numpy as np
import pytest
from learner_cases import ALPHA, chance, mixed_up, moving

from understudy.adversaries.learners.machine_learning import Boosting, Logistic, Neighbours, Windowed

ALL = (Logistic, Boosting, Neighbours)
KINDS = ("mean", "variance", "correlation")


@pytest.mark.sample(default=3, seconds=9, reason="nine learners")
@pytest.mark.parametrize("learner", ALL)
@pytest.mark.parametrize("kind", KINDS)
def test_finds_what_a_moving_parameter_changes(learner, kind):
    """The same for a theta that moves (false alarm 1e-6), with a twin whose outputs are those of other sequences."""
    rng = np.random.default_rng(3)
    attack = learner().learn(moving(kind, 24, rng), None, rng)
    judged = moving(kind, 48, rng)
    assert chance(attack, judged) < ALPHA
    assert chance(attack, mixed_up(judged, rng)) > ALPHA


@pytest.mark.sample(default=1, seconds=3, reason="four learners")
@pytest.mark.parametrize("learner", [*ALL, Windowed])
def test_learning_from_what_tells_nothing_finds_nothing(learner):
    """A learner that was taught with the outputs of other sequences finds nothing."""
    rng = np.random.default_rng(4)
    attack = learner().learn(mixed_up(moving("mean", 24, rng), rng), None, rng)
    judged = mixed_up(moving("mean", 48, rng), rng)
    assert chance(attack, judged) > ALPHA
    assert np.take_along_axis(attack.logits(judged), judged.truth[None], axis=0).mean() > np.log(0.5) - 0.05
