"""What every test runs under.

Property-based tests draw the same examples every time, and so do streams whose draws a test leaves to the operating
system: a test that fails for one draw in twenty fails always or never. HYPOTHESIS_PROFILE=explore draws others. Tests
marked `long` are left to `make test-long`, and so are all but `default` evenly spaced cases of a test marked `sample`;
a mark without seconds and reason is an error.
"""

from __future__ import annotations

import os
import random
import secrets

import pytest
from hypothesis import settings

settings.register_profile("fixed", derandomize=True, database=None, deadline=None)
settings.register_profile("explore", deadline=None)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "fixed")
settings.load_profile(PROFILE)
DRAWS = random.Random()  # noqa: S311  # draws of tests, which must repeat

if PROFILE == "fixed":
    secrets.token_bytes = DRAWS.randbytes
    secrets.randbits = DRAWS.getrandbits


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Each test has its own draws, whatever ran before it."""
    DRAWS.seed(item.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every long test says how long it takes on one core, and why; of a sample, the other cases are long."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sample"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for name, all_of_them in cases.items():
        mark = all_of_them[0].get_closest_marker("sample")
        if mark.args or mark.kwargs.keys() != {"default", "seconds", "reason"}:
            raise pytest.UsageError(f"{name}: write @pytest.mark.sample(default=..., seconds=..., reason=...)")
        count, wanted = len(all_of_them), mark.kwargs["default"]
        default = {round(k * (count - 1) / max(wanted - 1, 1)) for k in range(wanted)}
        for k, item in enumerate(all_of_them):
            if k not in default:
                item.add_marker(pytest.mark.long(seconds=mark.kwargs["seconds"] / count, reason=mark.kwargs["reason"]))
    for item in items:
        for mark in item.iter_markers("long"):
            if mark.args or mark.kwargs.keys() != {"seconds", "reason"}:
                raise pytest.UsageError(f"{item.nodeid}: write @pytest.mark.long(seconds=..., reason=...)")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """After the long suite: what it holds, for the README's figures."""
    config = terminalreporter.config
    if config.option.markexpr != "long":
        return
    for report in sorted(terminalreporter.getreports("passed"), key=lambda r: -r.duration):
        if report.when == "call":
            terminalreporter.write_line(f"{report.duration:7.1f} s  {report.nodeid}")
