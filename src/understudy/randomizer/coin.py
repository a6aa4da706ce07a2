"""`us.design_coin`: a coin decides for each epoch whether its readings are shown, or replaced by fresh chance.

This is the mode without a model, for those who have no labels to fit one to. With probability q a whole epoch is
hidden: its output is a public constant, or readings that one model draws from fresh scores (lifelike). Otherwise the
epoch is shown as it is, on the public lattice. The coins are independent of everything; what happened in the epochs is
Theta_1, Theta_2, ... Then, whatever the truth is (docs/theory.md has the proof)::

    I(Theta; ~Y) <= E H(Theta_S) <= (1 - q) sum_k H(Theta_k)         S the epochs that are shown

if the readings of an epoch depend on its own Theta_k alone. Where what happens acts on the readings of `carry` further
epochs too, an epoch that is shown tells of 1 + carry values, and 1 - q becomes (1 + carry) (1 - q). A Theta that stays
over n epochs leaks at most (1 - q^n) H(Theta). The weak side of a coin: an epoch that is shown is shown whole, and
these bounds are averages over the coin.

- `design_coin` takes q, or the leakage of an epoch. Edges of epochs have a random phase, for edges at midnight tell the
  time: one that follows from the key of the stream, or a public one.
- `CoinDesign` is a design like others: streams with ledger, files, card, report. It never looks at the private value. A
  coin is a keyed draw of its epoch, written before the first output of the epoch, and charged for it.
- `CoinMap` is the filter of an epoch. A hidden epoch has an output for every reading, missing ones included; it is a
  function of the key and the number of the reading alone. In a shown epoch a missing reading is missing.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from understudy import text
from understudy._types import Array, Frozen, Plain, Seed, Value
from understudy.distortion.costs import Costs
from understudy.errors import ConfigurationError, DesignError, StoredFileError
from understudy.laws.atoms import Atoms
from understudy.laws.multivariate import Independent
from understudy.laws.uniforms import Uniforms
from understudy.models.family import Family
from understudy.models.iid_markov import IID
from understudy.models.model import Model, probe, same_probe
from understudy.randomizer.design import BITS, AnyDesign, Choices, begin_or_open
from understudy.randomizer.guarantee import PrivacyCard
from understudy.randomizer.solver import nats
from understudy.serialize import (
    entries,
    fingerprint,
    from_plain,
    number_from_plain,
    number_to_plain,
    to_plain,
    value_from_plain,
    value_to_plain,
)
from understudy.stream.cadence import Duration
from understudy.stream.engine import COIN, DESIGN_PRIOR, KEYED, Clock
from understudy.stream.ledger import Ledger
from understudy.stream.release import GRID, Form, Release, Terms, default_lattice
from understudy.stream.stream import Stream
from understudy.transform.core import colour, colouring
from understudy.transform.readings import Lattice, Resolution, State, Transformation, as_lattice, as_readings, deliver
from understudy.transform.roundoff import Roundoff

SHOWN, HIDDEN = 0, 1
"""What the coin says, by position."""
_OUTCOMES = ("shown", "hidden")
_MOST_DECIMALS = 6
_LARGEST = float(np.finfo(float).max)
_SEED = 20230207  # of the lifelike epochs by which the distortion is stated


class CoinMap(Transformation):
    """The filter of epochs that are shown, or of those that are hidden; a state is handed from one to the other.

    The state: how many readings there were, and that of the colouring. Each reading has fresh scores of its own, which
    follow from the key of the stream and the number of the reading, whether the epoch is hidden or not.
    """

    def __init__(self, colour: Any, hidden: bool, secret: bytes) -> None:
        self._colour, self.hidden, self.dim = colour, hidden, colour.dim
        self._uniforms = Uniforms(Uniforms(secret).derive("hidden epochs"))

    def start(self) -> State:
        """Before the first reading."""
        return 0, self._colour.start()

    def apply(self, state: State, Y: Array, out: Array | None = None) -> tuple[State, Array]:
        """The readings as they are, or what is played in their place."""
        count, inner = state
        made = Y
        if self.hidden:
            from scipy.special import ndtri

            inner, made = self._colour.apply(inner, np.asarray(ndtri(self._uniforms.block(count, len(Y), self.dim))))
        return (count + len(Y), inner), deliver(made, out)

    def fresh(self, state: State, z: Array) -> tuple[State, Array]:
        """Slots without a reading: missing where the epoch is shown."""
        return self.apply(state, np.full(z.shape, np.nan))


class CoinDesign(AnyDesign, Frozen):
    """A coin by epoch; `us.design_coin` makes one.

    `q` is the probability that an epoch is hidden, `entropy` bounds what there is to learn about an epoch in nats, and
    `leakage` what an epoch leaks on average over the coin. `distortion` is the mean change of a reading in the history
    that was given, and its share of the mean reading; None without one.

    >>> import understudy as us
    >>> us.design_coin(q=0.5, epoch=24, constant=420.0)
    CoinDesign(q=0.5, epochs of 24 readings, constant, leakage=0.346574)
    """

    kind: ClassVar[str] = COIN
    file_kind: ClassVar[str] = "coin design"
    estimated: ClassVar[bool] = False
    blind: ClassVar[bool] = True

    __slots__ = (
        "_cache", "_values", "carry", "count", "distortion", "entropy", "epoch", "family", "hide", "model", "phase",
        "prior", "q", "terms",
    )  # fmt: skip

    costs: Costs | None = None

    def __init__(self, coin: Coin, model: Model, terms: Terms, about: Plain | None = None) -> None:
        self.count, self.q = coin.count, coin.count / (1 << BITS)
        self.epoch, self.phase, self.carry, self.hide = coin.epoch, coin.phase, coin.carry, coin.hide
        self.entropy, self.distortion = coin.entropy, coin.distortion
        self._values: tuple[Any, ...] = coin.values
        self.model, self.terms = model, terms
        members = dict.fromkeys((*coin.values, *_OUTCOMES), model)
        self.family: Family = Family(members, values=coin.values, about=about)
        self.prior = self.family.prior
        self._cache: dict[str, Any] = {}

    def __reduce__(self) -> tuple[type[CoinDesign], tuple[Coin, Model, Terms, Plain | None]]:
        return type(self), (self.coin, self.model, self.terms, self.family.about)

    def __repr__(self) -> str:
        return f"CoinDesign(q={self.q:.6g}, epochs of {self.epoch_words}, {self.hide}, leakage={self.leakage:.6g})"

    @property
    def coin(self) -> Coin:
        """All that was chosen but the model and the lattice."""
        return Coin(
            self.count, self.entropy, self._values, self.epoch, self.phase, self.carry, self.hide, self.distortion
        )

    @property
    def values(self) -> tuple[Any, ...]:
        """The values of the private parameter; they count, and are never looked at."""
        return self._values

    @property
    def pseudo(self) -> tuple[str, str]:
        """What the coin can say."""
        return _OUTCOMES

    @property
    def leakage(self) -> float:
        """Nats that an epoch leaks at most, on average over the coin: (1 + carry) (1 - q) H, rounded up."""
        return _leakage(self.count, self.carry, self.entropy)

    def leakage_of(self, epochs: int, stays: bool = False) -> float:
        """Nats that so many epochs leak at most, on average; of a value that `stays` over all of them, or of others.

        >>> import understudy as us
        >>> made = us.design_coin(q=0.5, epoch=24, constant=420.0, entropy="1 bit")
        >>> round(made.leakage_of(3) / math.log(2.0), 6), round(made.leakage_of(3, stays=True) / math.log(2.0), 6)
        (1.5, 0.875)
        """
        return (1.0 - self.q**epochs) * self.entropy if stays else epochs * self.leakage

    @property
    def epoch_words(self) -> str:
        """The length of an epoch, for people."""
        if isinstance(self.epoch, int):
            return text.with_count(self.epoch, "reading")
        return text.span(self.epoch.total_seconds())

    @property
    def guarantee(self) -> CoinCard:
        """What the design promises, with its conditions and its weak side."""
        return CoinCard(
            text.CoinFacts(
                self.q, len(self.values), self.entropy, self.leakage, self.carry, self.epoch_words,
                self.phase is None, self.hide, self.distortion,
            )
        )  # fmt: skip

    # What a stream asks of a design: `understudy.stream.engine.CoinPolicy` ------------------------------

    def row(self, value: Value) -> int:
        """0: no private value makes a difference."""
        return 0

    def draw(self, row: int, rng: np.random.Generator | None = None) -> int:
        """The coin of an epoch, from 53 random bits."""
        bits = secrets.randbits(BITS) if rng is None else int(rng.integers(1 << BITS))
        return HIDDEN if bits < self.count else SHOWN

    def draw_at_no_cost(self, last: int) -> int:
        """Hidden: that gives nothing away."""
        return HIDDEN

    def leakage_of_draw(self, marginal: ArrayLike | str | None = None) -> float:
        """What an epoch leaks, at any probabilities of the private values."""
        return self.leakage

    def residual_of_block(self, marginal: ArrayLike | str | None = DESIGN_PRIOR) -> None:
        """None: nothing here rests on a model."""

    @property
    def own_epochs(self) -> Plain:
        """The epochs of the coin, and their phase."""
        return {**Clock.checked(self.epoch), "phase": KEYED if self.phase is None else self.phase}

    def mapping(self, column: int, secret: bytes) -> CoinMap:
        """The filter of epochs for which the coin says so, in a stream with this key."""
        return CoinMap(colouring(self.model), column == HIDDEN, secret)

    @property
    def release(self) -> Release:
        """The lattice on which readings leave; any form of readings may come in."""
        if "release" not in self._cache:
            lattice, dim = as_lattice(self.terms.resolution, self.model.dim), self.model.dim
            ends = [_LARGEST] * dim
            self._cache["release"] = Release(lattice, [Form(GRID)] * dim, [-x for x in ends], ends, [None] * dim)
        found: Release = self._cache["release"]
        return found

    @property
    def floating(self) -> Roundoff | None:
        """None: a hidden output does not depend on the readings at all."""
        return None

    def stream(
        self,
        theta: Value = None,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        name: str | None = None,
        *,
        room: str | None = None,
        share: str | None = None,
        rng: Seed = None,
        period: Duration | None = None,
        tolerance: Duration | None = None,
        fill: bool | None = None,
    ) -> Stream:
        """A live stream; `theta` need not be given, and is not looked at.

        The other arguments are as in `Design.stream`. Streams of one room share the coin with ``share="independent"``,
        whatever they measure; their epochs then need a public phase. With `fill` and a `period` each slot of a hidden
        epoch is released, whether a reading came or not.

        >>> import understudy as us
        >>> made = us.design_coin(q=0.5, epoch=2, constant=420.0, phase=0)
        >>> out = made.stream(rng=1).apply([500.0, 510.0, None, 530.0])
        >>> bool(np.isin(out[:2], [500.0, 510.0]).all() or (out[:2] == 420.0).all())
        True
        """
        return self.begin(theta, ledger, Choices(name, room, share, None, rng, None, period, tolerance, None, fill))

    def begin(self, theta: Value, ledger: Ledger | str | os.PathLike[str] | None, choices: Choices) -> Stream:
        """Begin a stream, or go on with the one that the ledger has under this name; see `stream`."""
        if choices.epoch is not None and choices.epoch != self.epoch:
            raise ConfigurationError(f"epoch = {choices.epoch!r}; this design has epochs of {self.epoch_words}")
        if choices.share == "independent" and self.phase is None:
            raise ConfigurationError(
                "share = 'independent'; streams that share a coin have the same epochs, so their design needs a public "
                "phase: us.design_coin(..., phase=...)"
            )
        own = self.own_epochs
        options = {**own, "randomizer": fingerprint({"coin": str(self.count), "phase": str(own["phase"])})}
        return begin_or_open(self, self.values[0], ledger, choices, options)

    # Files -----------------------------------------------------------------------------------------------

    @property
    def essence(self) -> Plain:
        """The coin."""
        return {"coin": {name: value for name, value in self._numbers.items() if name != "distortion"}}

    @property
    def _numbers(self) -> Plain:
        length = Clock.checked(self.epoch)
        return {
            "hidden": str(self.count),
            "entropy": number_to_plain(self.entropy),
            "epoch": [length["epoch"], length["timed"]],
            "phase": self.phase,
            "carry": self.carry,
            "hide": self.hide,
            "distortion": None if self.distortion is None else list(self.distortion),
        }

    def to_content(self, models: bool = True) -> Plain:
        """What a file holds of the design; without models, a probe of the one that plays hidden epochs."""
        return {
            **self._numbers,
            "values": [value_to_plain(value) for value in self.values],
            "model": to_plain(self.model) if models else None,
            "probe": probe(self.model),
            "resolution": list(self.release.lattice.steps),
            "about": self.family.about,
        }

    @classmethod
    def from_content(cls, content: Plain, family: Family | None) -> CoinDesign:
        """The design in a file; `family` brings the model where the file holds none."""
        if content.keys() - {"release"} != _FIELDS:
            raise StoredFileError("the fields are not those of a coin design")
        if content["model"] is None and family is None:
            raise StoredFileError("the file holds no model of hidden epochs; give a family of that model")
        model = from_plain(content["model"]) if family is None else family.model(family.values[0])
        if not same_probe(probe(model), content["probe"]):
            raise StoredFileError("the model of hidden epochs is not the one that the design was made for")
        length, timed = content["epoch"]
        epoch = dt.timedelta(microseconds=length / 1000) if timed is True else length
        if Clock.checked(epoch) != {"epoch": length, "timed": timed}:
            raise StoredFileError("epoch must be a number of readings, or of nanoseconds")
        hidden, carry, phase, distortion = (content[name] for name in ("hidden", "carry", "phase", "distortion"))
        whole = type(hidden) is str and hidden.isdecimal() and int(hidden) <= 1 << BITS
        if not whole or type(carry) is not int or carry < 0 or not (phase is None or type(phase) is int):
            raise StoredFileError("hidden, carry and phase must be whole numbers")
        if content["hide"] not in ("constant", "lifelike"):
            raise StoredFileError("hide must be constant or lifelike")
        values = tuple(value_from_plain(value) for value in entries("values", content["values"]))
        entropy = number_from_plain("entropy", content["entropy"])
        if not 0.0 < entropy < math.inf or not values:
            raise StoredFileError("there must be values, and an entropy above 0")
        if distortion is not None:
            size, share = distortion
            distortion = float(size), None if share is None else float(share)
        coin = Coin(int(hidden), entropy, values, epoch, phase, carry, content["hide"], distortion)
        return cls(coin, model, Terms(content["resolution"]), content["about"])


_FIELDS = {
    "hidden", "entropy", "epoch", "phase", "carry", "hide", "distortion", "values", "model", "probe", "resolution",
    "about",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Coin:
    """What was chosen: hidden epochs in 2^-53, nats of an epoch, values, length and phase of epochs, and the rest."""

    count: int
    entropy: float
    values: tuple[Any, ...]
    epoch: int | dt.timedelta
    phase: int | None
    carry: int
    hide: str
    distortion: tuple[float, float | None] | None


@dataclass(frozen=True, slots=True, eq=False)
class CoinCard(PrivacyCard):
    """Everything that is guaranteed of a coin by epoch, whatever the truth is, and its weak side."""

    facts: text.CoinFacts

    holds: ClassVar[bool] = True

    @property
    def headline(self) -> str:
        """What is guaranteed, in one sentence."""
        return self.facts.claim

    @property
    def against(self) -> str:
        """The adversary of the bounds."""
        return text.COIN_AGAINST

    @property
    def not_protected(self) -> tuple[str, ...]:
        """What no bound is about."""
        return self.facts.not_protected

    @property
    def card(self) -> text.Card:
        """The whole card in words."""
        facts = self.facts
        return text.Card(
            title="Privacy card of a coin by epoch", claim=facts.claim, holds=True, facts=facts.facts,
            heading="What is guaranteed", caption="Each figure with its meaning; no model is behind any of them",
            measures=facts.measures, conditions=facts.conditions, against=self.against,
            not_protected=facts.not_protected,
        )  # fmt: skip

    def to_dict(self) -> Plain:
        """The card as plain data."""
        facts = self.facts
        return {
            "schema": "understudy.coin_guarantee",
            "version": 1,
            "guaranteed": True,
            "headline": self.headline,
            "hidden_share": facts.hidden,
            "epoch": facts.epoch,
            "carry": facts.carry,
            "hide": facts.hide,
            "leakage": {"nats_per_epoch": facts.leakage, "entropy_nats": facts.entropy},
            "right_guesses_at_most": facts.measures[0].value,
            "distortion": None if facts.distortion is None else facts.distortion[0],
            "measures": [
                {"name": m.name, "value": m.value, "unit": m.unit, "sentence": m.sentence} for m in facts.measures
            ],
            "conditions": list(facts.conditions),
            "against": self.against,
            "not_protected": list(self.not_protected),
        }


# `us.design_coin` ---------------------------------------------------------------------------------------


def design_coin(
    history: Any = None,
    *,
    q: float | None = None,
    leakage: float | str | None = None,
    epoch: dt.timedelta | int = dt.timedelta(days=1),
    show: str = "readings",
    hide: str = "constant",
    constant: ArrayLike | None = None,
    model: Model | None = None,
    values: int | Sequence[Value] = 2,
    entropy: float | str | None = None,
    carry: int = 0,
    phase: dt.timedelta | int | None = None,
    resolution: Resolution = None,
    about: Plain | None = None,
) -> CoinDesign:
    """A coin by epoch: the design without a model, whose bound holds whatever the truth is.

    Parameters
    ----------
    history : array or history, optional
        Past readings, (T,) or (T, d), or what `us.fit` reads them into. Their median is the constant where none is
        given, and so public; the card states the distortion of this history.
    q : float, optional
        The probability with which an epoch is hidden. Exactly one of `q` and `leakage` is given.
    leakage : float or str, optional
        What an epoch may leak on average: nats, "0.3 bit", or "40%" of its entropy.
    epoch : timedelta or int
        The length of an epoch: a time (readings then have times), or a number of readings.
    show : {"readings"}
        What is released of an epoch that is shown: its readings, on the lattice.
    hide : {"constant", "lifelike"}
        What is released of an epoch that is hidden: a public constant, or readings of `model` from fresh scores.
    constant : float or array of shape (d,), optional
        The constant; it must be public, and none that the hidden epochs themselves decide.
    model : Model, optional
        The model of lifelike epochs. It need not be right: it costs no privacy.
    values : int or sequence
        The values that the private parameter of an epoch takes, or their number m; its entropy is at most ln m.
    entropy : float or str, optional
        A bound on the entropy of the private parameter of an epoch, in place of ln m: nats, or "0.9 bit".
    carry : int
        So many epochs after its own are acted on by what happens in an epoch. A shown epoch is then charged for the
        values of as many epochs before it too, whether these were shown, hidden or not recorded.
    phase : timedelta or int, optional
        How long before the origin of the keys (1970, or reading 0) the first epoch begins, if that is to be public;
        otherwise it follows from the key of each stream.
    resolution : float, optional
        The lattice on which readings leave; by default the decimals of the history, or a millionth.
    about : dict, optional
        Columns and period, as a family knows them (`Family.about`), for files.

    Returns
    -------
    CoinDesign

    Examples
    --------
    >>> import understudy as us
    >>> made = us.design_coin([410.0, 420.0, 900.0], q=0.75, epoch=96)
    >>> made.model.law.values.tolist(), made.resolution, round(made.distortion[0], 6)
    ([420.0], (1.0,), 122.5)
    >>> round(us.design_coin(leakage="25%", epoch=96, constant=420.0).q, 6)
    0.75

    """
    if (q is None) == (leakage is None):
        raise DesignError(f"{'both' if q is not None else 'none'} of q and leakage given; exactly one is needed")
    if show != "readings":
        raise DesignError(f"show = {show!r}; it must be 'readings'")
    if hide not in ("constant", "lifelike"):
        raise DesignError(f"hide = {hide!r}; it must be 'constant' or 'lifelike'")
    if (model is None) != (hide == "constant") or (constant is not None and hide == "lifelike"):
        raise DesignError("hide = 'lifelike' needs model=, and takes no constant; hide = 'constant' takes no model")
    _whole("carry", carry, 0)
    if isinstance(values, (str, bytes)) or (not isinstance(values, Sequence) and not isinstance(values, int)):
        raise DesignError(f"values = {values!r}; it must be the values, or their number")
    if isinstance(values, int):
        _whole("values", values, 2)
    names = tuple(range(values)) if isinstance(values, int) else tuple(values)
    if len(names) < 2:
        raise DesignError("there must be two values or more; a single one has nothing to hide")
    H = math.log(len(names)) if entropy is None else nats(entropy, math.log(len(names)))
    if not 0.0 < H < math.inf:
        raise DesignError(f"entropy = {entropy!r}; it must be finite and above 0")
    length = Clock.checked(epoch)
    known = None if history is None else _readings(history, 1 if model is None else model.dim)
    player = _constant(constant, known) if model is None else model
    if known is not None and known.shape[1] != player.dim:
        raise DesignError(f"the history has {known.shape[1]} channels, and hidden epochs have {player.dim}")
    lattice = _lattice(resolution, player, known if hide == "constant" else None)
    count = _count(q, leakage, H, carry)
    coin = Coin(
        count, H, names, epoch, _phase(phase, length), carry, hide,
        None if known is None else _distortion(known, player, count / (1 << BITS)),
    )  # fmt: skip
    return CoinDesign(coin, player, Terms(list(lattice.steps)), about)


def _whole(name: str, given: int, least: int) -> None:
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given < least:
        raise DesignError(f"{name} = {given!r}; it must be a whole number, {least} or more")


def _count(q: float | None, leakage: float | str | None, H: float, carry: int) -> int:
    """The probability of hidden epochs in 2^-53, rounded up; of a leakage, the least that keeps it."""
    if q is None:
        budget = nats(leakage, H)
        share = budget / H / (1 + carry)
        q = max(0.0, 1.0 - share)
        count = max(0, math.floor(q * 2.0**BITS) - 4)
        while count < 1 << BITS and _leakage(count, carry, H) > budget:
            count += 1
        return count
    number = isinstance(q, (int, float, np.integer, np.floating)) and not isinstance(q, bool)
    if not number or not 0.0 <= q <= 1.0:
        raise DesignError(f"q = {q!r}; it must be a probability, from 0 to 1")
    return math.ceil(Fraction(float(q)) * (1 << BITS))


def _leakage(count: int, carry: int, H: float) -> float:
    """(1 + carry) (1 - q) H, rounded up: what a shown epoch tells of, whether its neighbours are shown or not."""
    exact = (1 + carry) * (1 - Fraction(count, 1 << BITS)) * Fraction(H)
    found = float(exact)
    return found if Fraction(found) >= exact else math.nextafter(found, math.inf)


def _phase(given: dt.timedelta | int | None, length: Plain) -> int | None:
    """The public phase in units of keys, below the length of an epoch; None for one that follows from a key."""
    if given is None:
        return None
    if isinstance(given, dt.timedelta) and length["timed"]:
        microseconds = (given.days * 86_400 + given.seconds) * 10**6 + given.microseconds
        return microseconds * 1000 % int(length["epoch"])
    if isinstance(given, int) and not isinstance(given, bool) and not length["timed"]:
        return given % int(length["epoch"])
    raise DesignError(f"phase = {given!r}; it must be of the kind that the epoch has, a timedelta or a number")


def _readings(history: Any, dim: int) -> Array:
    """The readings of a history (T, d), missing ones left out."""
    segments = getattr(history, "segments", None)
    if segments is not None:
        Y = np.concatenate([np.asarray(part.Y, dtype=float).reshape(len(part.Y), -1) for part in segments])
    else:
        shape = np.shape(history)
        Y = as_readings(history, shape[1] if len(shape) == 2 else dim, "history")
    there: Array = Y[~np.isnan(Y).any(axis=1)]
    if not len(there):
        raise DesignError("the history holds no whole reading")
    return there


def _constant(given: ArrayLike | None, history: Array | None) -> Model:
    """The model that always reads the constant."""
    if given is None:
        if history is None:
            raise DesignError("hidden epochs need a public constant: give constant=, or a history whose median it is")
        given = np.median(history, axis=0)
    try:
        level = np.array(given, dtype=float).reshape(-1)
    except (TypeError, ValueError):
        level = np.array([math.nan])
    if not np.isfinite(level).all() or not level.size:
        raise DesignError("constant must be a finite number, or one for each channel")
    laws = [Atoms([value], [1.0]) for value in level.tolist()]
    return IID(laws[0] if len(laws) == 1 else Independent(*laws))


def _lattice(resolution: Resolution, player: Model, history: Array | None) -> Lattice:
    """The lattice that is asked for, or that of the decimals of a history, or of lifelike readings."""
    if resolution is not None:
        return as_lattice(resolution, player.dim)
    if not isinstance(player, IID) or not getattr(player.law, "atoms", False):
        return default_lattice([player])
    return Lattice([10.0 ** -_decimals(None if history is None else history[:, i]) for i in range(player.dim)])


def _decimals(y: Array | None) -> int:
    """Decimals that all readings have, six at most."""
    if y is None:
        return _MOST_DECIMALS
    return next((k for k in range(_MOST_DECIMALS) if (abs(y - y.round(k)) < 1e-9).all()), _MOST_DECIMALS)


def _distortion(Y: Array, player: Model, q: float) -> tuple[float, float | None]:
    """The mean absolute change of a reading of the history, and its share of the mean reading."""
    z = np.random.default_rng(_SEED).standard_normal(Y.shape)
    size = q * float(np.abs(Y - np.reshape(colour(z, player), Y.shape)).mean())
    mean = abs(float(Y.mean()))
    return size, size / mean if mean > 0.0 else None
