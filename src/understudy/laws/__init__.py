"""Laws: the conditional law of one reading, as a map to scores and back.

Nothing is imported here, so that a program loads only the laws that it uses.
"""
