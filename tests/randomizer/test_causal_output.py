"""The output along a pseudo path has the law of that path, and shows its changes and no others.

theta follows a persistent chain, the pseudo path is drawn with memory, and readings are whitened along the
one and coloured along the other. Statistical tests have a false-alarm rate of 1e-6.
"""

import numpy as np
import pytest
import simulate
from helpers import room
from scipy import stats

import understudy as us
from understudy.checks import whiteness

T, N = 400, 60
FALSE_ALARM = 1e-6
STAY = 0.97


@pytest.fixture(scope="module")
def played():
    """For each sequence: the path of theta, the pseudo path, and the disguised readings."""
    family = us.Family(lambda people: room(0.1 * people), values=[0, 1])
    chain = [[STAY, 1 - STAY], [1 - STAY, STAY]]
    design = us.design_causal(family, chain, rate=0.02, distortion=1.0 - np.eye(2))
    rng = np.random.default_rng(7)
    rows = []
    for _ in range(N):
        theta, state, pseudo = [int(rng.random() < 0.5)], design.start(), []
        while len(theta) < T:
            theta.append(theta[-1] if rng.random() < STAY else 1 - theta[-1])
        for value in theta:
            draw = design.draw(state, value, rng)
            state = draw.state
            pseudo.append(design.pseudo[draw.pseudo])
        source, target = family.along(theta), family.along(pseudo)
        Y = simulate.of_model(rng, source, T, 1)[:, 0, 0]
        rows.append((np.array(theta), np.array(pseudo), us.disguise(Y, source, target), family))
    return rows


def test_scores_under_the_pseudo_path_are_white(played):
    """And under the path of theta they are not."""
    under = [np.concatenate([us.whiten(Y, f.along(path)) for _, path, Y, f in played])]
    under.append(np.concatenate([us.whiten(Y, f.along(theta)) for theta, _, Y, f in played]))
    right, wrong = (whiteness(z[:, None]) for z in under)
    assert right.p_value > FALSE_ALARM, right.weakest
    assert wrong.p_value < FALSE_ALARM


def _steps(Y, path, at):
    """How far what drives the output, y_k - 0.95 y_{k-1}, moves at each of these times, in the direction of a rise."""
    drive = Y[1:] - 0.95 * Y[:-1]
    found = []
    for k in at:
        before, after = drive[max(0, k - 9) : k - 1], drive[k - 1 : k + 7]
        found.append((after.mean() - before.mean()) * (1.0 if path[k] > path[k - 1] else -1.0))
    return found


def test_a_change_detector_finds_the_changes_of_the_pseudo_path_alone(played):
    """Mean steps at changes of the pseudo path are seen; at those of theta away from them there is nothing."""
    hers, theirs = [], []
    for theta, pseudo, Y, _ in played:
        changed = np.flatnonzero(np.diff(pseudo)) + 1
        quiet = [
            k for k in np.flatnonzero(np.diff(theta)) + 1 if not (np.abs(changed - k) <= 9).any() and 10 < k < T - 8
        ]
        alone = [k for k in changed if (np.abs(changed - k) <= 9).sum() == 1 and 10 < k < T - 8]
        hers += _steps(Y, pseudo, alone)
        theirs += _steps(Y, theta, quiet)
    assert min(len(hers), len(theirs)) > 50
    assert stats.ttest_1samp(hers, 0.0).pvalue < FALSE_ALARM
    assert stats.ttest_1samp(theirs, 0.0).pvalue > FALSE_ALARM
    assert np.mean(hers) > 0.5
    assert abs(np.mean(theirs)) < 0.2
