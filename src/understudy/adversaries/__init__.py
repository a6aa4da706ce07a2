"""Adversaries: what somebody who sees the output, and knows everything but the parameter and the draws, can tell.

An adversary is a value with ``guess(Y) -> Guess``: which value of the private parameter it takes the readings for, and
its scores. One that learns has ``fit(Y, index)``, which returns another that has learned.
"""
