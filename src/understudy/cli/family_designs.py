"""``understudy design family.json``: the randomizer for a family that was fitted, and what its leakage is per.

Per run there is one draw for the whole run (`us.design`). Per day or per decision the parameter moves, draws
are made by the clock and remember each other (`us.design_causal`), with the transitions that were seen in the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import understudy as us
from understudy.cli.fitting import loaded
from understudy.cli.keeping import NOTHING, Kept, kept
from understudy.cli.terminal import progress
from understudy.cli.typed import budget, chosen, numbers, quantity, readings
from understudy.errors import ConfigurationError, DesignError

PER = ("run", "day", "decision")
_DAY = 86_400.0
_USUAL = "0.1 bit"  # of a day, unless told
_DECISION = 900.0  # seconds between decisions, unless told
# readings that the distortion is of where there is no formula for long sequences: a day of them, within these
_SHORTEST, _LONGEST, _UNKNOWN = 96, 1440, 480


@dataclass(frozen=True, slots=True)
class Asked:
    """What was typed about the readings that leave and come in; None where nothing was."""

    resolution: str | None = None
    readings: str | None = None
    valid: str | None = None

    def arguments(self) -> dict[str, Any]:
        """The same as arguments of a design.

        >>> Asked("1/4096", None, "0,2000").arguments()
        {'resolution': 0.000244140625, 'valid': (0, 2000)}
        """
        found: dict[str, Any] = {}
        if self.resolution is not None:
            steps = [_step(part) for part in self.resolution.split(",")]
            found["resolution"] = steps[0] if len(steps) == 1 else steps
        if self.readings is not None:
            found["readings"] = self.readings
        if self.valid is not None:
            ends = numbers("--valid", self.valid)
            if len(ends) != 2:
                raise ConfigurationError(f"--valid {self.valid}: two numbers are wanted, the lowest and the highest")
            found["valid"] = tuple(ends)
        return found


NOTHING_ASKED = Asked()


def _step(text: str) -> float:
    top, slash, bottom = text.partition("/")
    try:
        return float(top) / float(bottom) if slash else float(top)
    except (ValueError, ZeroDivisionError):
        raise ConfigurationError(f"--resolution {text}: a number is wanted, as in 0.01 or 1/4096") from None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was typed for a design; None where nothing was."""

    leakage: str | None = None
    rate: str | None = None
    error_at_least: float | None = None
    distortion_at_most: str | None = None
    distortion: str = "mae"
    pseudo: str | None = None
    horizon: int | None = None
    per: str | None = None
    decision_every: str | None = None
    causal: bool = False
    also: Kept = NOTHING
    asked: Asked = NOTHING_ASKED


def designed(path: Path, wanted: Wanted) -> tuple[us.Design | us.CausalDesign, list[str]]:
    """The design for a stored family, and what there is to say about how it was made."""
    family = loaded(path)
    return made(family, wanted)


def made(family: us.Family, wanted: Wanted) -> tuple[us.Design | us.CausalDesign, list[str]]:
    """The design for a family: by one draw a run, or by draws that remember."""
    per, notes = which(family, wanted)
    about = {**(family.about or {}), "per": per}
    models = {value: family.model(value) for value in family.values}
    marked = us.Family(models, family.values, family.prior, about=about)
    pseudo = None if wanted.pseudo is None else chosen("--pseudo", wanted.pseudo, family.values)
    if per == "run":
        return _one_draw(marked, pseudo, wanted, notes), notes
    return _causal(marked, pseudo, wanted, per, notes), notes


def which(family: us.Family, wanted: Wanted) -> tuple[str, list[str]]:
    """What the leakage is per: as typed, or a day where the parameter moves and the clock is known, or a run."""
    if wanted.per is not None and wanted.per not in PER:
        raise ConfigurationError(f"--per {wanted.per}: it must be one of {', '.join(PER)}")
    memory = wanted.causal or wanted.rate is not None or wanted.decision_every is not None
    if wanted.per == "run" and memory:
        raise ConfigurationError(
            "--per run is one draw for the whole run; --causal, --rate and --decision-every are for draws that follow "
            "a parameter that moves: --per day or --per decision"
        )
    if wanted.per is not None:
        return wanted.per, []
    if memory:
        return ("decision" if wanted.rate is not None else "day" if _clock(family) else "decision"), []
    asks = wanted.error_at_least is not None or wanted.distortion_at_most is not None
    if not moves(family):
        return "run", []
    how = "--leakage and --per day" if asks else "--per day or --per decision"
    follow = "" if approximate(family) else f" With {how} draws follow it by the clock."
    return "run", [
        "The leakage is per run: one value is drawn at its first reading and played throughout, whatever the true one "
        f"does. The distortion is for a value that stays; in this data it moves, and readings will change more.{follow}"
    ]


def approximate(family: us.Family) -> bool:
    """Whether some model gives away a little itself, as one of rounded readings does."""
    from understudy.randomizer.charge import is_approximate

    return any(is_approximate(family.model(value)) for value in family.values)


def moves(family: us.Family) -> bool:
    """Whether the parameter was seen to change within a segment, and not only thought able to."""
    T, chain = transition(family), (family.about or {}).get("chain") or {}
    if T is None:
        return False
    seen = float(chain.get("transitions") or 0.0)
    return bool(((1.0 - np.diag(T)) * np.asarray(family.prior) * seen).sum() > len(T))


def transition(family: us.Family) -> Any:
    """The transition matrix from one reading to the next; None if it is not known."""
    found = ((family.about or {}).get("chain") or {}).get("transition")
    if found is None:
        return None
    T = np.array(found, dtype=float)
    return T if T.shape == (len(family.values),) * 2 else None


def _clock(family: us.Family) -> float | None:
    period = (family.about or {}).get("period")
    return float(period) if period else None


def _one_draw(family: us.Family, pseudo: list[Any] | None, wanted: Wanted, notes: list[str]) -> us.Design:
    demands: dict[str, Any] = {
        "leakage": budget(wanted.leakage),
        "error_at_least": wanted.error_at_least,
        "distortion_at_most": _most(family, wanted, notes),
    }
    given = {name: value for name, value in demands.items() if value is not None}
    also = kept(wanted.also, family.values, family.values if pseudo is None else pseudo)
    if len(given) != 1 and not (also and not given):
        options = " and ".join("--" + name.replace("_", "-") for name in given) or "no demand"
        raise ConfigurationError(
            f"{options} given; a design meets one demand: --leakage, --error-at-least or --distortion-at-most"
        )

    def make(horizon: int | None) -> us.Design:
        with progress("distortion of each pair") as told:
            how: dict[str, Any] = {"horizon": horizon, "distortion": wanted.distortion, "progress": told}
            return us.design(family, pseudo, **given, constraints=also, **how, **wanted.asked.arguments())

    made: us.Design = _with_horizon(make, family, wanted.horizon, notes)
    if approximate(family) and wanted.horizon is None:
        notes.append(
            "The models are approximate (rounded readings): what they give away themselves is charged for as many "
            "readings."
        )
    return made


def _with_horizon(make: Any, family: us.Family, horizon: int | None, notes: list[str]) -> Any:
    """For long sequences where there is a formula for them; else for so many readings, which is said."""
    try:
        return make(horizon)
    except DesignError as error:
        if horizon is not None or not str(error).startswith("horizon is missing"):
            raise
    # approximate models are charged reading by reading, which takes long
    period = _clock(family)
    count = _UNKNOWN if period is None else min(_LONGEST, max(_SHORTEST, round(_DAY / period)))
    count = _SHORTEST if approximate(family) else count
    notes.append(f"The distortion is that of the first {count} readings; --horizon says of how many.")
    return make(count)


def _most(family: us.Family, wanted: Wanted, notes: list[str]) -> float | None:
    if wanted.distortion_at_most is None:
        return None
    units = (family.about or {}).get("units")
    value, unit = quantity("--distortion-at-most", wanted.distortion_at_most, units)
    if unit and not units:
        notes.append(f"{unit} is taken for the unit of the readings; the family does not name one.")
    return value


def _causal(family: us.Family, pseudo: list[Any] | None, wanted: Wanted, per: str, notes: list[str]) -> us.CausalDesign:
    if wanted.error_at_least is not None or wanted.distortion_at_most is not None:
        option = "--error-at-least" if wanted.error_at_least is not None else "--distortion-at-most"
        raise ConfigurationError(f"{option} goes with --per run; for draws that remember give --leakage or --rate")
    if wanted.also.options:
        raise ConfigurationError(
            f"{wanted.also.options[0]} goes with --per run; draws that remember have no such limit"
        )
    T = transition(family)
    if T is None:
        raise ConfigurationError(
            f"--per {per} needs to know how the parameter moves, and the family does not say; fit it from a file with "
            "times, or use --per run"
        )
    if approximate(family):
        raise ConfigurationError(
            f"--per {per}: the models are approximate (rounded readings), and what a path of such models gives away is "
            "not known. With --per run there is one draw, and what they give away is charged"
        )
    every = _decision(family, wanted, notes)
    rate = _rate(family, wanted, per, every, notes)

    def make(horizon: int | None) -> us.CausalDesign:
        with progress("distortion of each pair") as told:
            return us.design_causal(
                family,
                np.linalg.matrix_power(T, every),
                pseudo,
                rate=rate,
                decision_every=every,
                horizon=horizon,
                distortion=wanted.distortion,
                progress=told,
                **wanted.asked.arguments(),
            )

    found: us.CausalDesign = _with_horizon(make, family, wanted.horizon, notes)
    return found


def _decision(family: us.Family, wanted: Wanted, notes: list[str]) -> int:
    period = _clock(family)
    if wanted.decision_every is not None:
        return readings("--decision-every", wanted.decision_every, period)
    count = max(1, round(_DECISION / period)) if period else 1
    when = "at every reading" if count == 1 else f"every {count} readings"
    notes.append(f"A value is drawn {when}; --decision-every says otherwise.")
    return count


def _rate(family: us.Family, wanted: Wanted, per: str, every: int, notes: list[str]) -> Any:
    leakage = wanted.leakage
    if per == "day":
        notes.append(
            "The leakage of a day is a mean over days and no cap: some days leak more. A cap for a live stream is "
            "Ledger.limit, in Python."
        )
        if leakage is None and wanted.rate is None:
            leakage = _USUAL
            notes.append(f"No --leakage is given; it is {_USUAL} a day.")
    if (leakage is None) == (wanted.rate is None):
        both = "both given" if wanted.rate is not None else "missing"
        raise ConfigurationError(f"--leakage and --rate: {both}; one is needed, the rate is that of a decision")
    if wanted.rate is not None:
        return budget(wanted.rate)
    if per == "decision":
        return budget(leakage)
    period = _clock(family)
    if period is None:
        raise ConfigurationError(
            "--per day needs the period of the readings, and the family has none; fit with --period"
        )
    from understudy.randomizer.causal.days import at_most

    return at_most(budget(leakage), _DAY / (period * every))
