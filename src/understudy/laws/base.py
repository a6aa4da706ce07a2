"""What a law is: the conditional law of one reading given the past.

A law turns a reading into *scores*, independent standard normals, and back. In the paper the
reading passes through its conditional c.d.f., u = F(y), and then through an inverse one. Here
z = Phi^-1(u) takes the place of u: the same map, but it does not saturate in the tails.

Shapes. A law of dimension 1 acts on numbers, element by element, on arrays of any shape. A law of
dimension d > 1 acts on arrays whose first axis is the channel, ``(d,)`` or ``(d, N)``. The map is
triangular: score ``l`` depends on channels ``1..l`` alone, and increases with channel ``l``.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from understudy._types import Array as Array
from understudy._types import Frozen as Frozen


@runtime_checkable
class Law(Protocol):
    """The law of one reading given the past: three methods. Ours also tell their `dim`."""

    def score(self, y: Any, v: Any = None) -> Any:
        """Reading to scores, y -> z ~ N(0, I); `v` are auxiliary uniforms, used by atoms only."""
        ...

    def value(self, z: Any) -> Any:
        """Scores to reading, the inverse of `score`."""
        ...

    def logpdf(self, y: Any) -> Any:
        """Logarithm of the joint density of the channels, in nats."""
        ...


def is_law(thing: Any) -> bool:
    """Whether something has the three methods of a law."""
    return all(callable(getattr(thing, name, None)) for name in ("score", "value", "logpdf"))
