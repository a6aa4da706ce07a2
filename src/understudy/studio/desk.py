"""What lies on the table: a history, its family, a design, two pins, an audit; and what may be done with them.

The desk belongs to one session and to all of its tabs. What changes it raises its `revision`, and the tabs are told.
Long work goes to the one job; only what takes microseconds, a design with costs that are known, is worked out here.
What a job is asked for is fixed when it begins: a change of mind meanwhile begins from its result.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import understudy as us
from understudy import __version__
from understudy._types import Plain
from understudy.adversaries.results import load_audit
from understudy.adversaries.statistics import Scores
from understudy.errors import ConfigurationError, UnderstudyError
from understudy.identify.fit import save_family
from understudy.randomizer.design import Demand, solve_demand, with_terms
from understudy.report.facts import AnyDesign, facts
from understudy.report.pages import audit_html, privacy_report
from understudy.serialize import kind_of_file, read_plain
from understudy.studio import takeaway, views
from understudy.studio.jobs import CancelledError, Job, JobError, Jobs, Result
from understudy.studio.takeaway import Recipe

DEMANDS = ("leakage", "error_at_least", "distortion_at_most")
USUAL = "0.1 bit"
PSEUDO = (0, 0.2, 0.4, 0.6, 0.8, 1)
HORIZON = 50


@dataclass(frozen=True)
class Source:
    """A file that was opened: where it lies, under which name, and the digest of its content."""

    name: str
    path: Path
    digest: str
    size: int
    shown: str
    """How commands name it: the path that was given to the program, or the name of an upload."""


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def amount(text: Any) -> float | str:
    """A demand as typed: a number where it is one, otherwise its words, which the library reads."""
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise ConfigurationError(f"an amount is of type {type(text).__name__}; it must be a number or a text")
    try:
        return float(text)
    except ValueError:
        return str(text)


def room(occupants: float) -> us.GaussMarkov:
    """The paper's room (Section V), to look around without data."""
    return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * occupants, mean0=100.0, cov0=1.0)


class Desk:
    """The state of a session."""

    def __init__(self, folder: Path, traces: bool, changed: Callable[[], None]) -> None:
        self.folder, self.traces, self._changed = folder, traces, changed
        self.revision = 0
        self.jobs = Jobs(folder, changed)
        self.failure: Plain | None = None
        self.solved = 0
        self.notes: Plain = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.clear()

    def clear(self) -> None:
        """Take everything off the table."""
        self.source: Source | None = None
        self.found: Plain | None = None  # columns
        self.columns: Plain | None = None
        self.data: Plain | None = None
        self._forget_family()

    def _forget_family(self) -> None:
        self.family: us.Family | None = None
        self.family_source: Source | None = None
        self.fitted: Plain = {}
        self.fit: Plain | None = None
        self.tuning: Plain | None = None
        self.tuned: us.CausalDesign | None = None
        self.base: us.Design | None = None
        self.base_terms: Plain = {}
        self.base_shown: Plain | None = None
        self.demand: tuple[str, str] = ("leakage", USUAL)
        self.design: AnyDesign | None = None
        self.recipe: Recipe | None = None
        self.pins: list[Plain | None] = [None, None]
        self.looks: Plain | None = None
        self.audit_of: str | None = None
        self.audit_path: Path | None = None

    def change(self) -> None:
        """Something is new."""
        self.revision += 1
        self._changed()

    # What is opened -----------------------------------------------------------------------------------

    async def open(self, path: Path, name: str, shown: str) -> None:
        """A history, a family or a design."""
        self.check_free()
        digest = await asyncio.to_thread(digest_of, path)
        source = Source(name, path, digest, path.stat().st_size, shown)
        if not name.casefold().endswith(".json"):
            self.clear()
            self.source = source
            self.start("columns", self._read_columns())
            return
        kind = await asyncio.to_thread(kind_of_file, path)
        if kind == "family":
            family = await asyncio.to_thread(us.load_family, path)
            self.clear()
            self._take_family(family, source, None, None)
        elif kind.endswith("design"):
            design = await asyncio.to_thread(us.load_design, path)
            self.clear()
            self.design, self.recipe = design, Recipe("opened", {"path": shown})
            if design.family is not None:
                await asyncio.to_thread(self._family_of, design)
                if isinstance(design, us.Design) and design.terms.outputs is None and not design.constraints:
                    self._take_base(design, self._terms_of(design))
                    self.demand = design.demand[0], str(design.demand[1])
        else:
            raise ConfigurationError(f"{name}: it must be a family or a design that understudy wrote")
        self.failure = None
        self.change()

    def _family_of(self, design: AnyDesign) -> None:
        family = design.family
        if family is None:
            return
        path = self.folder / "opened-family.json"
        # with the models of its pseudo values, so that the commands that are shown find them
        save_family(family, path, () if design.blind else design.pseudo)
        source = Source(path.name, path, digest_of(path), path.stat().st_size, takeaway.FAMILY)
        if not design.blind:
            self._take_family(family, source, None, None)

    async def open_room(self) -> None:
        """The paper's room."""
        family = us.Family(room, values=[0, 1])
        path = self.folder / "room.json"
        save_family(family, path)
        self.clear()
        self._take_family(family, Source(path.name, path, digest_of(path), path.stat().st_size, ""), None, None)
        self.recipe = Recipe("room")
        terms = {"distortion": "mae", "horizon": HORIZON, "fresh": 0.0, "pseudo": list(PSEUDO)}
        design = us.design(family, PSEUDO, leakage="100%", horizon=HORIZON, distortion="mae")
        self._take_base(design, terms)
        self.solve(("leakage", "0.3"))
        self.failure = None
        self.change()

    def _take_family(
        self, family: us.Family, source: Source, scores: list[Plain] | None, fingerprint: str | None
    ) -> None:
        self.family, self.family_source = family, source
        self.fit = views.fit_view(family, scores, fingerprint)

    @staticmethod
    def _terms_of(design: us.Design) -> Plain:
        costs = design.costs
        return {
            "distortion": "mse" if costs is None else costs.distortion,
            "horizon": None if costs is None else costs.horizon, "fresh": design.fresh, "pseudo": list(design.pseudo),
        }  # fmt: skip

    # Jobs -----------------------------------------------------------------------------------------------

    def start(self, task: str, work: Awaitable[None]) -> None:
        """Begin long work; what it comes to is told by the state."""

        async def run() -> None:
            try:
                await work
                self.failure = None
            except CancelledError:
                self.failure = {"task": task, "words": takeaway.words()["page"]["cancelled"], "cancelled": True}
            except (UnderstudyError, JobError) as error:
                self.failure = {"task": task, "words": str(error), "cancelled": False}
            except Exception as error:  # its message may hold a reading
                words = f"a fault of the program ({type(error).__name__}); please report it"
                self.failure = {"task": task, "words": words, "cancelled": False}
            self._tasks.discard(job)  # who asks now what is new must not hear that work goes on
            self.change()

        self.failure = None
        job = asyncio.get_running_loop().create_task(run())
        self._tasks.add(job)

    @property
    def busy(self) -> bool:
        """Whether a job runs, or what it made is being taken in."""
        return self.jobs.running is not None or bool(self._tasks)

    def check_free(self) -> None:
        """Refuse a second job."""
        if self.busy:
            running = self.jobs.running or Job("work")
            raise ConfigurationError(f"a job is running ({running.task}); cancel it, or wait for its end")

    def _history(self) -> dict[str, tuple[Path, str]]:
        if self.source is None:
            raise ConfigurationError("no history is open; open one first")
        return {"history": (self.source.path, self.source.digest)}

    def _family_file(self) -> dict[str, tuple[Path, str]]:
        if self.family_source is None:
            raise ConfigurationError("no family is open; open one, or fit one to a history")
        return {"family": (self.family_source.path, self.family_source.digest)}

    async def _job(self, task: str, options: Plain, files: dict[str, tuple[Path, str]], out: str = "") -> Result:
        return await self.jobs.run(task, options, files, out)

    async def _read_columns(self) -> None:
        source = self.source
        if source is None:
            return
        self.found = (await self._job("columns", {"name": source.name}, self._history())).found

    def check_columns(self, given: Plain) -> Plain:
        """What the columns are, as the page says it."""
        known = (self.found or {}).get("names") or []
        reading = given.get("reading")
        if not isinstance(reading, list) or not reading or not all(isinstance(each, str) for each in reading):
            raise ConfigurationError("no reading: a column of readings must be named")
        found: Plain = {"reading": reading, "private": given.get("private"), "public": given.get("public") or []}
        for name in ("time", "segment", "period", "bins"):
            text = given.get(name)
            found[name] = text.strip() if isinstance(text, str) and text.strip() else None
        if not isinstance(found["private"], str):
            raise ConfigurationError("no private column: the column that must not be learned must be named")
        for name in [*reading, found["private"], found["segment"]]:
            if name is not None and name not in known:
                raise ConfigurationError(f"{name!r} is no column of the history")
        if found["private"] in reading:
            raise ConfigurationError(f"{found['private']!r} is the private column and a reading; it can be one of them")
        found["day_first"] = given.get("day_first") is True
        found["delimiter"] = (self.found or {}).get("delimiter")
        return found

    def look_at_data(self, given: Plain) -> None:
        """Begin to read the history by these columns."""
        self.check_free()
        columns, source = self.check_columns(given), self.source
        if source is None:
            raise ConfigurationError("no history is open; open one first")

        async def work() -> None:
            result = await self._job("data", {"columns": columns, "name": source.name}, self._history())
            if self.columns != columns:
                self._forget_family()
            self.columns, self.data = columns, result.found

        self.start("data", work())

    def fit_models(self, given: Plain) -> None:
        """Begin to fit."""
        self.check_free()
        if self.columns is None or self.source is None:
            raise ConfigurationError("the history has not been read yet; say what its columns are")
        model = given.get("model") or "auto"
        if not isinstance(model, str):
            raise ConfigurationError("the model must be named by a text")
        options = {"columns": self.columns, "name": self.source.name, "model": model}

        async def work() -> None:
            result = await self._job("fit", options, self._history(), takeaway.FAMILY)
            path = result.folder / takeaway.FAMILY
            family = await asyncio.to_thread(us.load_family, path)
            self._forget_family()
            source = Source(path.name, path, digest_of(path), path.stat().st_size, takeaway.FAMILY)
            self._take_family(family, source, result.found["scores"], result.found["fingerprint"])
            self.fitted = {"model": model}

        self.start("fit", work())

    def tune(self, given: Plain) -> None:
        """Begin to look for a measured protection."""
        self.check_free()
        columns, source = self.columns, self.source
        if columns is None or source is None:
            raise ConfigurationError("tuning is measured on labelled history; open one and fit it first")
        at_most = amount(given.get("at_most", 0.65))
        if not isinstance(at_most, float) or not 0.5 < at_most < 1.0:
            raise ConfigurationError(f"at_most = {at_most!r}; it must lie between 0.5 and 1")
        options = {"columns": columns, "name": source.name, "at_most": at_most}

        async def work() -> None:
            result = await self._job("tune", options, self._history() | self._family_file(), takeaway.DESIGN)
            self.tuning = views.tuning_view(result.found["tuning"], result.found["sentences"])
            if result.found["made"]:
                design = await asyncio.to_thread(us.load_design, result.folder / takeaway.DESIGN)
                self.tuned = design
                self._put(design, self._recipe("tuned", self._tuning_arguments(at_most)))

        self.start("tune", work())

    def _tuning_arguments(self, at_most: float) -> Plain:
        known = {} if self.family is None else self.family.about or {}
        name, period = str((known.get("model") or {}).get("name")), known.get("period")
        c = self.columns or {}
        found: Plain = {"reading": list(c["reading"]), "private": c["private"], "at_most": at_most}
        found["models"] = tuple(dict.fromkeys(("adaptive", name, "AR(1), Student-t")))
        found["periods"] = [900.0 if c.get("time") and period is not None and period < 300.0 else None]
        found |= {"budgets": (0.0,), "adversaries": ("boosting", "logistic")}
        found |= {key: c[key] for key in ("time", "segment", "period", "bins", "day_first") if c.get(key)}
        return found

    def _recipe(self, kind: str, given: Plain) -> Recipe:
        opened = None
        if self.source is None and self.family_source is not None:
            opened = self.family_source.shown or None
        return Recipe(
            kind, given, None if self.source is None else self.source.shown, self.columns or {}, self.fitted, opened
        )

    def _pseudo(self, given: Plain) -> list[Any] | None:
        """The pseudo values by their places among those of the family; None for all of them."""
        wanted = given.get("pseudo")
        if wanted is None or self.family is None:
            return None
        values = list(self.family.values)
        if not isinstance(wanted, list) or not wanted or not all(
            isinstance(k, int) and not isinstance(k, bool) and 0 <= k < len(values) for k in wanted
        ):  # fmt: skip
            raise ConfigurationError("pseudo: at least one value of the family must be chosen")
        return None if sorted(set(wanted)) == list(range(len(values))) else [values[k] for k in sorted(set(wanted))]

    def _terms(self, given: Plain) -> Plain:
        horizon, fresh = given.get("horizon"), given.get("fresh") or 0.0
        if horizon is not None and (isinstance(horizon, bool) or not isinstance(horizon, int) or horizon < 1):
            raise ConfigurationError(f"horizon = {horizon!r}; it must be a whole number of readings, 1 or more")
        if isinstance(fresh, bool) or not isinstance(fresh, (int, float)) or not 0.0 <= fresh <= 1.0:
            raise ConfigurationError(f"fresh = {fresh!r}; it must lie between 0 and 1")
        measure = given.get("distortion", "mae")
        if measure not in ("mae", "mse"):
            raise ConfigurationError(f"distortion = {measure!r}; it must be mae or mse")
        return {"horizon": horizon, "fresh": float(fresh), "distortion": measure, "pseudo": self._pseudo(given)}

    def find_costs(self, given: Plain) -> None:
        """Begin to work out the costs, which serve every demand."""
        if given.get("auto") is True and self.busy:  # two tabs ask by themselves
            return
        self.check_free()
        terms = self._terms(given)
        if self.recipe is not None and self.recipe.kind == "room":
            terms["pseudo"] = list(PSEUDO)
        files = self._family_file()

        async def work() -> None:
            result = await self._job("base", terms, files, takeaway.DESIGN)
            design = await asyncio.to_thread(us.load_design, result.folder / takeaway.DESIGN)
            self._take_base(design, {**terms, "horizon": result.found["horizon"]})
            self.solve(self.demand)

        self.start("base", work())

    def _take_base(self, design: us.Design, terms: Plain) -> None:
        self.base, self.base_terms = design, terms
        self.base_shown = views.base_view(design)

    def causal(self, given: Plain) -> None:
        """Begin a design whose draws follow the value."""
        self.check_free()
        every = given.get("decision_every")
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ConfigurationError(f"decision_every = {every!r}; it must be a whole number of readings, 1 or more")
        leakage = amount(given.get("leakage", USUAL))
        output = given.get("output", "lifelike")
        if output not in ("lifelike", "least-change"):
            raise ConfigurationError(f"output = {output!r}; it must be lifelike or least-change")
        options: Plain = {
            **self._terms(given),
            "leakage": leakage,
            "decision_every": every,
            "clock": given.get("clock") is True,
            "output": output,
        }
        files, asked = self._family_file(), dict(options)
        if output == "least-change":
            if self.source is None or self.columns is None:
                raise ConfigurationError("a least-change output is fitted to a history; open one first")
            files |= self._history()
            asked |= {"columns": self.columns, "name": self.source.name}

        async def work() -> None:
            result = await self._job("causal", asked, files, takeaway.DESIGN)
            design = await asyncio.to_thread(us.load_design, result.folder / takeaway.DESIGN)
            self._put(design, self._recipe("causal", {**options, "horizon": result.found["horizon"]}))

        self.start("causal", work())

    def coin(self, given: Plain) -> None:
        """Begin a coin by epoch."""
        self.check_free()
        q, epoch = amount(given.get("q", 0.5)), given.get("epoch")
        if not isinstance(q, float) or not 0.0 <= q <= 1.0:
            raise ConfigurationError(f"q = {q!r}; it must lie between 0 and 1")
        if isinstance(epoch, bool) or not isinstance(epoch, int) or epoch < 1:
            raise ConfigurationError(f"epoch = {epoch!r}; it must be a whole number of readings, 1 or more")
        if self.columns is None or self.source is None:
            raise ConfigurationError("a coin takes its constant from a history; open one first")
        options = {"q": q, "epoch": epoch, "columns": self.columns, "name": self.source.name}
        files = self._history() | ({} if self.family_source is None else self._family_file())

        async def work() -> None:
            result = await self._job("coin", options, files, takeaway.DESIGN)
            design = await asyncio.to_thread(us.load_design, result.folder / takeaway.DESIGN)
            self._put(design, self._recipe("coin", {"q": q, "epoch": epoch}))

        self.start("coin", work())

    def _put(self, design: AnyDesign, recipe: Recipe) -> None:
        """A design takes the place of the one before."""
        self.design, self.recipe = design, recipe
        self.looks = None
        if self.audit_of != facts(design)["fingerprint"]:
            self.audit_of = self.audit_path = None

    def _stored(self) -> tuple[Path, str]:
        if self.design is None:
            raise ConfigurationError("there is no design yet")
        path = self.folder / f"design-{self.design.fingerprint[-16:]}.json"  # one of its own: a job reads it later
        self.design.save(path)
        return path, digest_of(path)

    def look(self, given: Plain) -> None:
        """Begin the traces and what adversaries conclude from them."""
        if given.get("auto") is True and self.busy:
            return
        self.check_free()
        design, row = self.design, given.get("row", 0)
        if design is None:
            raise ConfigurationError("there is no design yet")
        if isinstance(row, bool) or not isinstance(row, int) or not 0 <= row < len(design.values):
            raise ConfigurationError(f"row = {row!r}; it must be the place of a private value")
        options: Plain = {"row": row, "traces": self.traces}
        files = {"design": self._stored()}
        if self.source is not None and self.columns is not None:
            options |= {"columns": self.columns, "name": self.source.name}
            files |= self._history()

        async def work() -> None:
            found = (await self._job("looks", options, files)).found
            if self.design is design:
                self.looks = found

        self.start("looks", work())

    def attack(self) -> None:
        """Begin the audit."""
        self.check_free()
        design = self.design
        if design is None:
            raise ConfigurationError("there is no design yet")
        options: Plain = {}
        files = {"design": self._stored()}
        if self.source is not None and self.columns is not None and not design.blind:
            options |= {"columns": self.columns, "name": self.source.name}
            files |= self._history()

        async def work() -> None:
            result = await self._job("audit", options, files, takeaway.AUDIT)
            if self.design is design:
                self.audit_path = result.folder / takeaway.AUDIT
                self.audit_of = facts(design)["fingerprint"]

        self.start("audit", work())

    # The slider -------------------------------------------------------------------------------------------

    def solve(self, demand: tuple[str, Any]) -> Plain:
        """The design at a demand, with the costs that are known: microseconds."""
        base = self.base
        if base is None:
            raise ConfigurationError("the costs are not known yet")
        name, text = demand
        if name not in DEMANDS:
            raise ConfigurationError(f"{name!r} is no demand; it must be one of {', '.join(DEMANDS)}")
        wanted: Demand = (name, amount(text))
        made = solve_demand(base.cost.copy(), base.prior.copy(), wanted, base.family, base.costs, base.charge)
        made = with_terms(made, base.terms)
        self.solved += 1
        given = {name: wanted[1], "distortion": self.base_terms["distortion"], "horizon": self.base_terms["horizon"]}
        given |= {"pseudo": self.base_terms["pseudo"], "fresh": self.base_terms["fresh"]}
        kind = "room" if self.recipe is not None and self.recipe.kind == "room" else "draw"
        self._put(made, self._recipe(kind, given))
        self.demand = name, str(text)
        self.revision += 1
        return views.quick_view(made)

    # Pins and notes -----------------------------------------------------------------------------------------

    def pin(self, slot: Any, label: Any) -> None:
        """Keep the figures of the present design beside those of another."""
        if slot not in (0, 1) or isinstance(slot, bool):
            raise ConfigurationError(f"slot = {slot!r}; it must be 0 or 1")
        if self.design is None:
            raise ConfigurationError("there is no design yet")
        self.pins[slot] = views.pin_view(self.design, str(label or "AB"[slot])[:60])
        self.change()

    def note(self, given: Plain) -> None:
        """What was decided and why, in the words of those who decide."""
        self.notes = {key: str(given.get(key) or "")[:4000] for key in ("who", "what", "why")}

    # What is shown --------------------------------------------------------------------------------------------

    def state(self) -> Plain:
        """Everything that the page shows."""
        source = self.source
        running = self.jobs.running
        return {
            "version": __version__,
            "revision": self.revision,
            "traces": self.traces,
            "job": None if running is None else running.plain(),
            "busy": self.busy,
            "started": self.jobs.started,
            "solved": self.solved,
            "failure": self.failure,
            "source": None if source is None else {"name": source.name, "size": source.size},
            "found": self.found,
            "columns": self.columns,
            "data": self.data,
            "fit": self.fit,
            "fitted": self.fitted,
            "tuning": self.tuning,
            "tuned": self.tuned is not None,
            "base": self.base_shown,
            "terms": self.base_terms,
            "demand": list(self.demand),
            "moves": self._moves(),
            "recipe": None if self.recipe is None else self.recipe.kind,
            "pins": self.pins,
            "looks": self.looks,
            "audited": self.audit_of is not None,
            "notes": self.notes,
            "has_design": self.design is not None,
        }

    def _moves(self) -> Plain:
        known = {} if self.family is None else self.family.about or {}
        chain, period = known.get("chain") or {}, known.get("period")
        return {
            "causal": bool(chain.get("transition")) and bool(period), "clock": bool(chain.get("routine")),
            "every": max(1, round(900.0 / float(period))) if period else 1,
            "day": max(1, round(86_400.0 / float(period))) if period else None,
        }  # fmt: skip

    def whole_design(self, design: AnyDesign, recipe: Recipe) -> Plain:
        """A design with its card, commands and script; it may be another already when they are there."""
        audit = None if self.audit_path is None else load_audit(self.audit_path)
        call = {"causal": "design_causal", "coin": "design_coin", "tuned": "tune", "opened": "load_design"}
        name = call.get(recipe.kind, "design")
        shown = f"us.{name}({'family, ' if name.startswith('design') and recipe.kind != 'coin' else ''}"
        shown += f"{takeaway.arguments_of(recipe.given)})"
        found = views.design_view(design, shown, audit)
        found["commands"] = takeaway.commands(recipe, design, audit is not None)
        found["script"] = takeaway.script(recipe, design)
        found["quick"] = views.quick_view(design) if isinstance(design, us.Design) else None
        found["audit"] = None if audit is None else views.audit_view(audit)
        return found

    def _present(self) -> tuple[AnyDesign, Recipe]:
        if self.design is None or self.recipe is None:
            raise ConfigurationError("there is no design yet")
        return self.design, self.recipe

    def download(self, name: str) -> tuple[bytes, str, str]:
        """The bytes of a file, its type and its name."""
        design, recipe = self._present()
        audited = self.audit_path is not None
        if name == "design.json":
            return self._stored()[0].read_bytes(), "application/json", takeaway.DESIGN
        if name == "report.html":
            return privacy_report(design, self._audit_part()).encode("utf-8"), "text/html", takeaway.REPORT
        if name == "audit.json" and self.audit_path is not None:
            return self.audit_path.read_bytes(), "application/json", takeaway.AUDIT
        if name == "commands.sh":
            lines = ["#!/bin/sh", *takeaway.comment(design), *takeaway.commands(recipe, design, audited)]
            return ("\n".join(lines) + "\n").encode("utf-8"), "text/plain", "make_design.sh"
        if name == "script.py":
            return takeaway.script(recipe, design).encode("utf-8"), "text/plain", takeaway.SCRIPT
        if name == "decision.md":
            return takeaway.record(recipe, design, self.notes, audited).encode("utf-8"), "text/markdown", "decision.md"
        if name == "family.json" and self.family_source is not None:
            return self.family_source.path.read_bytes(), "application/json", takeaway.FAMILY
        raise KeyError(name)

    def _audit_part(self) -> str:
        if self.audit_path is None:
            return ""
        told = read_plain(self.audit_path).get("scores")
        return audit_html(load_audit(self.audit_path), None if told is None else Scores.from_plain(told))


_UNSAFE = re.compile(r"[^A-Za-z0-9._ -]")


def safe_name(name: str) -> str:
    """The name of an upload as that of a file in a folder of its own.

    >>> safe_name("../../etc/passwd.csv"), safe_name("Büro 1.csv")
    ('passwd.csv', 'B_ro 1.csv')
    """
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    found = _UNSAFE.sub("_", last).lstrip(".- ")[-80:]
    if not found:
        raise ConfigurationError("the file has no name")
    return found


def size_words(size: float) -> str:
    """A number of bytes in words.

    >>> size_words(512 << 20), size_words(2.1 * (1 << 30))
    ('512 MB', '2.1 GB')
    """
    unit = ("bytes", "kB", "MB", "GB")
    k = min(3, max(0, int(math.log(max(size, 1), 1024))))
    return f"{size / 1024**k:.3g} {unit[k]}"
