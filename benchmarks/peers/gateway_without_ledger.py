"""The gateway without its ledger: what it costs to disguise a message, apart from recording it. To measure with."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from understudy.gateway import service


class NoLedger:
    """Stands where the service has its ledger, and holds nothing."""

    stopped = False

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def close(self) -> None:
        """There is nothing to close."""


if __name__ == "__main__":
    plant = service.Plant
    service.Ledger = NoLedger  # type: ignore[assignment, misc]  # a stand-in
    service.Plant = lambda _, *given, **options: plant(None, *given, **options)  # type: ignore[assignment, misc]  # a stand-in
    partial(service.serve, sys.argv[1])()
