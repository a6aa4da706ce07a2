"""How messages name the rows and columns of a problem: by their values where these are known, else by position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from understudy.randomizer import card


class Names(NamedTuple):
    """The values and the pseudo values of a problem; empty where it is a bare matrix."""

    values: tuple[Any, ...] = ()
    pseudo: tuple[Any, ...] = ()

    def row(self, i: int) -> str:
        """One row.

        >>> Names().row(2), Names(("home", "away"), (0, 1)).row(1)
        ('row 2', 'value away')
        """
        return f"value {card.label(self.values[i])}" if self.values else f"row {i}"

    def column(self, j: int) -> str:
        """One column."""
        return f"pseudo value {card.label(self.pseudo[j])}" if self.pseudo else f"column {j}"

    def rows(self, several: Sequence[int]) -> str:
        """Several rows, the first six by name.

        >>> Names().rows([0, 1, 2])
        'rows 0, 1 and 2'
        """
        if len(several) == 1:
            return self.row(several[0])
        told = [card.label(self.values[i]) if self.values else str(i) for i in several]
        *first, last = told if len(told) <= 6 else [*told[:6], f"{len(told) - 6} more"]
        return f"{'values' if self.values else 'rows'} {', '.join(first)} and {last}"

    @property
    def a_column(self) -> str:
        """What a column is called."""
        return "pseudo value" if self.pseudo else "column"
