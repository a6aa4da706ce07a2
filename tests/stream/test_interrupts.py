"""Ctrl-C at any line: nothing is lost, counted twice or drawn twice."""

import linecache
import os
import sys
import threading

import numpy as np
import pytest
from stream_helpers import along, opened

import understudy as us
from understudy.stream import inspection


class Interrupter:
    """Raises KeyboardInterrupt at the n-th line that the package runs, and once more some lines later."""

    def __init__(self, at, more=None):
        self.left, self.more, self.hits = at, more, 0

    def __call__(self, frame, event, _):
        if "understudy/stream" not in frame.f_code.co_filename.replace(os.sep, "/"):
            return None
        # Python handles signals after calls and jumps: never at a `try`, nor at the end of a `with` before its exit
        if event == "line" and self.left is not None and not _line(frame).startswith(("with ", "try:")):
            self.left -= 1
            if self.left < 0:
                self.hits += 1
                self.left, self.more = self.more, None
                raise KeyboardInterrupt
        return self


def _line(frame):
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()


@pytest.mark.sample(default=4, seconds=4, reason="an interrupt at each line")
@pytest.mark.parametrize("more", [None, 0, 3, 5, 7])
@pytest.mark.parametrize("epoch", [None, 3])
def test_interrupted_at_any_line_nothing_is_lost_or_made_twice(design, readings, tmp_path, epoch, more):
    """Ctrl-C at each line of a step in turn, and again while it is cleared up.

    The reading is given again under its key, and the sequence is the uninterrupted one, with one draw an epoch.
    """
    with opened(tmp_path) as ledger:
        stream = design.stream(1, ledger, "a", epoch=epoch)
        interrupted, key, line, quiet = 0, 0, 0, 0
        while quiet < 3 and key < 1000:
            interrupter = Interrupter(line, more)
            sys.settrace(interrupter)
            try:
                if key % 2:
                    stream.step(float(readings[key]), key=key)
                else:
                    stream.apply(readings[key : key + 1], keys=[key])
            except KeyboardInterrupt:
                interrupted += 1
            finally:
                sys.settrace(None)
            quiet = 0 if interrupter.hits else quiet + 1
            line += 1
            stream.step(float(readings[key]), key=key)
            assert stream.count == key + 1
            key += 1
        assert interrupted > 60
        free = []

        def taken():
            free.append(ledger.guard.acquire(timeout=5.0))
            ledger.guard.release()

        thread = threading.Thread(target=taken)
        thread.start()
        thread.join()
        assert free == [True]  # no interrupt has left a lock behind
        assert quiet == 3
        found = [record["y"] for record in inspection.released_outputs(ledger.path, "a")]
        draws = [draw for (draw,) in ledger.rows("SELECT draw FROM epochs ORDER BY epoch")]
        assert len(draws) == (1 if epoch is None else -(-key // epoch))
        expected = along(design, readings[:key], [draws[k // epoch if epoch else 0] for k in range(key)])
        assert np.allclose(found, expected, rtol=0, atol=1e-9)
        assert all(f.passed for f in inspection.verify(ledger.path))


@pytest.mark.long(seconds=5, reason="a new ledger for each line of the code")
def test_interrupted_while_it_begins_a_stream_is_begun_once(design, tmp_path):
    """Ctrl-C at each line of `Design.stream`: asked again, the ledger has one stream, one draw and one charge."""
    for line in range(400):
        path = tmp_path / str(line)
        interrupter = Interrupter(line)
        with us.Ledger(path, rollback_guard=tmp_path / "w") as ledger:
            sys.settrace(interrupter)
            try:
                design.stream(1, ledger, "a")
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(None)
            assert design.stream(1, ledger, "a").spent == 0.3
            query = (
                "SELECT (SELECT count(*) FROM streams), (SELECT count(*) FROM epochs), (SELECT count(*) FROM charges)"
            )
            assert ledger.rows(query) == [(1, 1, 1)]
        assert all(f.passed for f in inspection.verify(path))
        if not interrupter.hits:
            break
    assert not interrupter.hits
    assert line > 60
