"""The classes of models that were compared, as a table for a page or a terminal."""

from __future__ import annotations

from typing import Any

HEAD = ("model", "log-likelihood", "behind", "± (1 s.e.)", "parameters", "verdict")


def candidates(model: dict[str, Any]) -> list[tuple[str, ...]]:
    """A row for each candidate, best first; the last cell says which was chosen and which cannot be used.

    >>> found = candidates({"name": "grey-box", "table": [{"name": "grey-box", "score": -2.8, "behind": 0.0}]})
    >>> found
    [('grey-box', '-2.8000', '0.0000', '-', '-', 'chosen')]
    """
    rows = []
    for each in model.get("table") or ():
        if not isinstance(each, dict):
            continue
        name = str(each.get("name"))
        state = "chosen" if name == model.get("name") else "" if each.get("usable", True) else "cannot be used"
        numbers = (_number(each.get(key)) for key in ("score", "behind", "behind_error"))
        count = each.get("count")
        rows.append((name, *numbers, "-" if count is None else str(count), state))
    return rows


def remarks(model: dict[str, Any]) -> list[str]:
    """Why candidates cannot be used, each reason once with those it is about.

    >>> remarks({"table": [{"name": "a", "note": "is slow"}, {"name": "b", "note": "is slow"}]})
    ['a; b: is slow']
    """
    found: dict[str, list[str]] = {}
    for each in model.get("table") or ():
        if isinstance(each, dict) and each.get("note"):
            found.setdefault(str(each["note"]), []).append(str(each.get("name")))
    return [f"{'; '.join(names)}: {note}" for note, names in found.items()]


def _number(x: Any) -> str:
    return f"{x:.4f}" if isinstance(x, (int, float)) else "-"
