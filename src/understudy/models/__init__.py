"""Models: the law of a whole measurement sequence, as a causal recursion.

Nothing is imported here, so that a program loads only the models that it uses.
"""
