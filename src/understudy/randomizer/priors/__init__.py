"""Odds that are not known, or that a public clock tells: one design for all of them, or one for each."""
