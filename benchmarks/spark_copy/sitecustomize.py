"""A copy in the place of the filter, in every Python process of a job: what is left is the engine and the marks."""

import os

if os.environ.get("UNDERSTUDY_COPY"):
    import numpy as np

    from understudy.stream.fleet import Fleet, Outcome

    def copy(self, rooms, keys, Y, theta=None, source=None):
        """Outputs that are the readings."""
        return Outcome(np.array(Y, dtype=float), np.zeros(len(Y), dtype=np.int8))

    Fleet.outcome = copy
