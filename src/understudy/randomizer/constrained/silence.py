"""Standard output kept clean while a solver runs that prints a line of its own now and then, whatever it is told.

A design may be made, or read again, by a process whose standard output is data: a line of HiGHS among disguised
readings would spoil the file. It prints from outside Python, so the descriptor itself is turned away for as long as it
runs. Where other threads run, which may be writing, nothing is turned away.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_OUT = 1


@contextmanager
def silent() -> Iterator[None]:
    """What is printed inside, by whatever language, goes nowhere."""
    if threading.active_count() > 1:
        yield
        return
    _flushed()
    try:
        kept = os.dup(_OUT)
    except OSError:  # there is no standard output
        yield
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, _OUT)
        os.close(nowhere)
        yield
    finally:
        _flushed()
        os.dup2(kept, _OUT)
        os.close(kept)


def _flushed() -> None:
    """Write what Python and C still hold back."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).fflush(None)
