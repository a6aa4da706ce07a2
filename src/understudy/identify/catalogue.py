"""The model classes that are tried, by name.

Names are those of the table ("grey-box", "AR(2), Student-t") or of a kind: "grey-box", "autoregressive", "independent",
"hidden", and "free", an autoregression whose noise has no assumed shape. A name of a kind tries all of that kind;
"auto" tries all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import Any

from understudy.errors import ConfigurationError
from understudy.identify.choice import Maker
from understudy.identify.history import History

KINDS = ("grey-box", "autoregressive", "free", "independent", "hidden")
FREE = "free noise"
"""What the names of classes have in them whose noise has no assumed shape."""
_LONG = 20_000  # readings above which "auto" leaves out free noise, which takes long; it is tried where the gate fails
_OTHER_NAMES = {
    "greybox": "grey-box",
    "grey box": "grey-box",
    "gauss-markov": "grey-box",
    "ar": "autoregressive",
    "var": "autoregressive",
    "autoregression": "autoregressive",
    "iid": "independent",
    "i.i.d.": "independent",
    "hmm": "hidden",
    "semiparametric": "free",
    "semi-parametric": "free",
    "free noise": "free",
    "hidden markov": "hidden",
}


def makers(history: History, model: Any = "auto", order: Any = (1, 2), random_state: Any = 0) -> dict[str, Maker]:
    """Name -> what fits it, for the classes that `model` names."""
    wanted = [model] if isinstance(model, str) else list(model) if isinstance(model, Iterable) else [model]
    found: dict[str, Maker] = {}
    everything = {kind: _of_kind(kind, history, orders(order), random_state) for kind in KINDS}
    for name in wanted:
        if not isinstance(name, str):
            raise ConfigurationError(f"model = {model!r}; it is 'auto', a name or a list of names")
        found |= _named(name, everything, history)
    return found


def orders(given: Any) -> tuple[int, ...]:
    """Orders of autoregression, from a number or a sequence of them.

    >>> orders(2), orders([1, 3])
    ((2,), (1, 3))
    """
    found = (given,) if isinstance(given, int) else tuple(given) if isinstance(given, Iterable) else ()
    if not found or any(not isinstance(p, int) or isinstance(p, bool) or not 1 <= p <= 100 for p in found):
        raise ConfigurationError(f"order = {given!r}; it must be a whole number of at least 1, or several")
    return found


def _named(name: str, everything: dict[str, dict[str, Maker]], history: History) -> dict[str, Maker]:
    low = name.lower()
    kind = _OTHER_NAMES.get(low, low)
    if kind == "auto":
        long = history.rows * history.dim > _LONG
        return {
            key: maker
            for kind, makers_of in everything.items()
            for key, maker in makers_of.items()
            if not (long and kind == "free")
        }
    if kind in everything and name not in everything[kind]:
        return everything[kind]
    for makers_of in everything.values():
        for key, maker in makers_of.items():
            if key.lower() == low:
                return {key: maker}
    made = _autoregression(name, history)
    if made is None:
        known = [key for makers_of in everything.values() for key in makers_of]
        raise ConfigurationError(f"model = {name!r}; it is 'auto', one of {', '.join(KINDS)}, or one of {known!r}")
    return {name: made}


def _autoregression(name: str, history: History) -> Maker | None:
    """An autoregression of any order by its name."""
    match = re.fullmatch(r"V?AR\((\d+)\), (normal|Student-t)( by class)?", name, re.IGNORECASE)
    if match is None:
        return None
    from understudy.identify.autoregression import fit_autoregression

    noise = "normal" if match[2].lower() == "normal" else "student"
    return partial(fit_autoregression, order=int(match[1]), noise=noise, by_class=bool(match[3]))


def _of_kind(kind: str, history: History, order: tuple[int, ...], random_state: Any) -> dict[str, Maker]:
    if kind == "grey-box":
        from understudy.identify.greybox import fit_greybox

        return {"grey-box": fit_greybox}
    if kind == "autoregressive":
        from understudy.identify.autoregression import fit_autoregression

        letters = "AR" if history.dim == 1 else "VAR"
        return {
            f"{letters}({p}), {words}{' by class' if by_class else ''}": partial(
                fit_autoregression, order=p, noise=noise, by_class=by_class
            )
            for p in order
            for noise, words in (("normal", "normal"), ("student", "Student-t"))
            for by_class in ((False, True) if p == max(order) else (False,))
        }
    if kind == "independent":
        from understudy.identify.independent import fit_independent

        return {
            "independent, normal": fit_independent,
            "independent, Student-t": partial(fit_independent, law="student"),
            "independent, kernel": partial(fit_independent, law="kernel", random_state=random_state),
        }
    if kind == "free":
        from understudy.identify.semiparametric import fit_semiparametric

        name = f"{'AR' if history.dim == 1 else 'VAR'}({max(order)}), {FREE} by class"
        return {name: partial(fit_semiparametric, order=max(order))}
    from understudy.identify.hidden import fit_hidden

    return {"hidden Markov": partial(fit_hidden, random_state=random_state)}
