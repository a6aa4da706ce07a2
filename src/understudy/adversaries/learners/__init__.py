"""The adversaries themselves, and what they are made of."""
