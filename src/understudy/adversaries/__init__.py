"""Adversaries: what somebody who sees the output, and knows everything but the parameter and the draws, can tell.

An adversary is a `understudy.Learner`: ``learn(cases, known, rng)`` returns an attack, whose ``logits(cases)`` are
log-probabilities of each value of the private parameter. `us.audit` runs those of its roster, or your own.
"""
