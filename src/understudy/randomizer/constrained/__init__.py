"""Other measures and rules as constraints on a randomizer: the linear and conic programs, and exact checks."""
