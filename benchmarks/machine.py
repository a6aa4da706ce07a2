"""One core, one thread, and a record of the machine: a figure without these cannot be checked.

Nothing here imports numpy: BLAS reads its thread count once, when numpy is first imported, so the
limits have to stand in the environment before that.
"""

from __future__ import annotations

import os
import platform
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

THREAD_LIMITS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
)
PACKAGES = (
    "numpy",
    "scipy",
    "Cython",
    "statsmodels",
    "filterpy",
    "pykalman",
    "simdkalman",
    "diffprivlib",
    "opendp",
    "cvxpy",
    "clarabel",
    "ecos",
    "dit",
    "qif",
)


def use_one_core() -> str:
    """Pin this process and its children to one core and one thread; say which core, or that it failed."""
    if "numpy" in sys.modules:
        raise RuntimeError("use_one_core() must run before numpy is imported")
    for name in THREAD_LIMITS:
        os.environ[name] = "1"
    if not hasattr(os, "sched_setaffinity"):
        return "not pinned (this system has no sched_setaffinity)"
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return f"pinned to core {core}"


def cpu_model() -> str:
    """The processor's own name where Linux tells it, else what Python knows."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def version(package: str) -> str:
    """The installed version of a package, or that it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def describe(command: str, pinning: str) -> list[tuple[str, str]]:
    """What a reader needs in order to repeat the run."""
    return [
        ("date", datetime.now(tz=UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ("command", f"`{command}`"),
        ("load", f"{os.getloadavg()[0]:.1f} processes in the minute before"),
        ("processor", f"{cpu_model()}, {os.cpu_count()} cores, one used ({pinning})"),
        ("system", f"{platform.system()} {platform.machine()}, {' '.join(platform.libc_ver())}"),
        ("python", f"{platform.python_implementation()} {platform.python_version()}"),
        ("packages", ", ".join(f"{name} {version(name)}" for name in PACKAGES)),
        ("kernels", kernels()),
    ]


def kernels() -> str:
    """Whether the hot loops that this run measured were compiled."""
    from understudy.transform import backend  # after use_one_core: this imports numpy

    return "compiled" if backend.compiled else "plain"
