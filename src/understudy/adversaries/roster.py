"""The adversaries by name. They are loaded when they are asked for, as some need packages of their own."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from understudy.adversaries.cases import Learner
from understudy.errors import ConfigurationError

ROSTER: dict[str, str] = {
    "blind": "references:Blind",
    "clock": "references:Clock",
    "windowed": "windowed:Windowed",
    "logistic": "learned:Logistic",
    "boosting": "learned:Boosting",
    "neighbours": "learned:Neighbours",
    "changes": "changes:Changes",
    "exact": "bayes:Exact",
    "smoother": "smoothing:Smoother",
    "hmm": "hidden:Hidden",
    "redraws": "redrawn:Redrawn",
    "grid": "gridded:Inverted",
    "digits": "gridded:Digits",
    "bits": "bits:Bits",
    "genie": "bayes:Genie",
}
"""Name -> where it is, as module:class of `learners`."""

REFERENCES = ("blind", "clock", "genie")
"""Those that attack nothing: they tell what is known without the output, or with the pseudo value itself."""


def named(adversaries: Any = "all") -> dict[str, Learner | str]:
    """The adversaries of an audit: name -> learner, or the reason why there is none.

    "all", a name, several, or a mapping of names to learners of your own. References always come with them.

    >>> list(named(["windowed"]))
    ['blind', 'clock', 'windowed', 'genie']
    >>> named("nobody")
    Traceback (most recent call last):
    understudy.errors.ConfigurationError: there is no adversary 'nobody'; there are windowed, logistic, boosting, \
neighbours, changes, exact, smoother, hmm, redraws, grid, digits, bits
    """
    found: dict[str, Any] = {"blind": None, "clock": None}
    for name, learner in _asked(adversaries).items():
        found[name] = learner
    if "genie" not in found:
        found["genie"] = None
    return {name: _loaded(name) if learner is None else learner for name, learner in found.items()}


def _asked(adversaries: Any) -> dict[str, Any]:
    if isinstance(adversaries, str):
        adversaries = tuple(ROSTER) if adversaries == "all" else (adversaries,)
    if isinstance(adversaries, dict):
        for name, learner in adversaries.items():
            if not isinstance(name, str) or not callable(getattr(learner, "learn", None)):
                raise ConfigurationError(f"the adversary {name!r} is no learner; it needs name, objection and learn")
        return dict(adversaries)
    if not isinstance(adversaries, Iterable):
        raise ConfigurationError(f"adversaries = {adversaries!r}; it must be 'all', names, or names with learners")
    names = tuple(adversaries)
    for name in names:
        if name not in ROSTER:
            raise ConfigurationError(
                f"there is no adversary {name!r}; there are {', '.join(n for n in ROSTER if n not in REFERENCES)}"
            )
    return dict.fromkeys(name for name in ROSTER if name in names)


def _loaded(name: str) -> Any:
    """The learner of this name, or why there is none."""
    module, _, cls = ROSTER[name].partition(":")
    try:
        return getattr(import_module(f"understudy.adversaries.learners.{module}"), cls)()
    except ModuleNotFoundError as missing:
        root = (missing.name or "").partition(".")[0]
        if root == "sklearn":
            return "it needs scikit-learn: pip install 'understudy[sklearn]'"
        return f"it needs the package {root}" if root != "understudy" else "it is not part of this version"
