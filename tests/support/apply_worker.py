"""A process that disguises a file, and may be killed or run out of disk; used by test_restart and test_memory."""

import json
import re
import resource
import sys
from pathlib import Path

import understudy as us
from understudy.apply.apply_file import apply_file


def room(value):
    people = {"empty": 0.0, "full": 1.0}.get(value, value)
    return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=2.0 * people, mean0=400.0, cov0=1.0)


def memory():
    """The most memory so far, in kB; what getrusage says may be that of the process that started this one."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(source, target, options):
    """Says "ready" before the first row, and its memory and summary at the end."""
    family = us.Family(room, values=["empty", "full"])
    design = us.design(family, pseudo=[0.0, 0.5, 1.0], leakage=0.3, horizon=50, distortion="mae")
    limit, guard, progress = (options.pop(name, None) for name in ("limit", "guard", "progress"))
    if guard is not None:
        options["ledger"] = us.Ledger(options["ledger"], rollback_guard=guard)
    if limit is not None:
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    if progress:
        options["progress"] = lambda rows, share: print(rows, flush=True)
    print("ready", flush=True)
    try:
        told = json.loads(apply_file(design, source, target, **options).to_json())
    except us.errors.UnderstudyError as error:
        told = {"error": type(error).__name__, "message": str(error)}
    told["memory"] = memory()
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
