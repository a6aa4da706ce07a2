"""`understudy` that dies between COMMIT and write, and the ways to do it wrong that the check of kills must find.

    python pipe_runner.py WAY pipe design.json ...

Groups are small, and each process kills itself right before its second write. `right` is the program as it is.
`early` writes an output before the COMMIT that records it. `forgetful` gives a line that comes again nothing.
"""

import os
import signal
import sys
import time

from understudy.cli import main
from understudy.gateway import pipe
from understudy.gateway.plant import Plant
from understudy.stream.ledger import Ledger

commit, write, writes = Ledger._commit, pipe.Target.write, []


def slow_commit(self, db):
    time.sleep(0.02)
    commit(self, db)


def last_write(self, content):
    writes.append(len(content))
    if len(writes) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    write(self, content)


def early_renderer(*given):
    render = made(*given)

    def render_and_write(output):
        content = render(output)
        os.write(1, content)
        return content

    return render_and_write


if __name__ == "__main__":
    way = sys.argv.pop(1)
    Ledger._commit, pipe.Target.write, pipe._READ = slow_commit, last_write, 1024
    made = pipe.renderer
    if way == "early":
        pipe.renderer = early_renderer
        pipe.Target.write = lambda *_: None
    elif way == "forgetful":
        Plant._recorded = lambda self, arrival, fleet, room, record: record
    elif way != "right":
        raise SystemExit(f"no such way: {way}")
    main()
