"""What the page says before and after the figures: the short answer, sources, and how it was done."""

from __future__ import annotations

from typing import Any

from studies.real_data import page_office, page_others
from studies.real_data.tables import table

SOURCES = (
    (
        "candanedo",
        "UCI Occupancy Detection, one office: L. M. Candanedo, V. Feldheim, *Energy and Buildings* 112 (2016) 28-39",
        "LuisM78/Occupancy-detection-data, ba2b1d7",
        "none stated in the repository; the UCI page lists CC BY 4.0 (unconfirmed)",
    ),
    (
        "sdu_ou44",
        "SDU OU44, four rooms: K. Arendt et al., DATA '18, doi 10.1145/3277868.3277875",
        "EBC-Annex-79/Data-Driven-Occupant-Modeling, 5362f4b",
        "CC BY 4.0",
    ),
    (
        "iotsec",
        "Room Climate Datasets, three locations: P. Morgner et al., ESORICS 2017",
        "IoTsec/Room-Climate-Datasets, f26ea40 (30 s means of it)",
        "no licence file; published as open data, citation asked for",
    ),
    (
        "robod",
        "ROBOD, three rooms: Z. D. Tekler et al., *Building Simulation* (2022), doi 10.1007/s12273-022-0925-9",
        "ideas-lab-nus/robod, 6577c3b",
        "no licence file; citation asked for",
    ),
)


def opening(results: dict[str, Any]) -> str:
    """Title, command, the short answer, and where the data come from."""
    rows = [[f"`{name}`", *rest] for name, *rest in SOURCES]
    missing = [f"`{name}`" for name, *_ in SOURCES if name not in results]
    absent = f"\n\nNot run for this page: {', '.join(missing)}." if missing else ""
    return f"""
# What it does on real data

Theorems hold where their premises do. This page measures what is left of them in real rooms: families fitted to
recordings that others made, readings disguised by them, and adversaries who learn from labelled disguised history and
are judged on recordings that nobody fitted anything to. What came out is reported, also where it is not what was
hoped for.

    make study DATA=../shared/data

(that is `python -m studies.real_data --data ../shared/data`) makes all of it again, figures and page; `--only
candanedo` one data set, `--page` the page alone, from `studies/real_data/results.json`. The data are not part of the
project, and every file is checked by its SHA-256.

## In short

{short(results)}

## Data

{table(["folder", "what, and whom to cite", "taken from (GitHub, commit)", "licence"], rows, left=4)}

No reading of these is shown or stored here, only aggregate figures.{absent}
"""


def short(results: dict[str, Any]) -> str:
    """The answer in a few lines, each made of the figures below."""
    lines = [*page_office.summary(results.get("candanedo", {})), *page_others.summary(results)]
    return "\n".join(f"- {line}" for line in lines) or "- Nothing has been run yet."


def closing(results: dict[str, Any]) -> str:
    """How it was done, and which choices were made when."""
    return """
## How it was done

**Adversaries** are those of `us.audit`: a windowed estimate, logistic regression and nearest neighbours on windows and
differences, change detection and a hidden Markov model. Each learns from the labelled training recording,
disguised with fresh draws (two copies) as the recording that
it is judged on, and sees the whole output, future included. Gradient boosting and the Bayes smoother, which knows the
models, the randomizer and the chain, take as long as all others together; they are in the complete audits only.
An adversary is judged by balanced accuracy: how often it is right,
averaged over the values of the private parameter. "Best" is the largest of all adversaries *on the test data
themselves*, which favours the adversary; all of them stand in `results.json`.

**Intervals** are at 95 percent, over stretches of four hours (files of `iotsec`: two hours), never over single
readings.
They are wide where days are few. They are those of one adversary, and do not account for the choice of the best.

**Gain over the clock** is the balanced accuracy of an adversary who has the output and the clock, less that of the
clock alone. Where presence follows office hours, an adversary without a clock is paid for finding out the time of day,
which is public anyway.

**Noise of equal distortion** is normal noise added to raw readings, as large in every recording as what the disguise
changed there; white, or slow (an AR(1) process that forgets half in an hour), which cannot be averaged away.
Adversaries learn from noisy training readings.

**Control**: the same designs, draws and labels, with scores that are fresh normals, as they would be if the model were
right. What adversaries find beyond the control, they find because the model is wrong.

**Outputs are kept to a range**, that of the training readings and half as wide again on either side. A limit that does
not depend on what is disguised takes nothing from privacy.

**Nothing was chosen on test recordings.** Period and model class of `candanedo` were compared on the training file
(table above). `sdu_ou44` has the period that the identifier's notes advise and its own choice of class, `robod` its
native period and the identifier's choice, `iotsec` means over two minutes and vector autoregressions, for the sake of
time. Choices made *after* figures had been seen: the limit on outputs, because a fitted heavy tail gave absurd
readings; the budgets, spread so that the whole range of distortion is covered; the adversary with labels of test2
itself, because in a first pass those who learned from train did worse than chance there; the clock of `iotsec`, because
adversaries without one reached 0.73 in location C even where the model was right: the output shows how long ago an
experiment began. In a first pass, with
a weaker change detection, AR(2) with free noise leaked least on train and was followed through; it still stands in the
tables.

Fresh chance in the scores was tried after all other figures were known, because of them, and its shares were set after
0.5 and 0.8 had been looked at on the test files.

**Missing readings**: recordings are cut there and a stretch begins anew. **Decisions** come from the clock; the private
value is told, except where it says "estimated".
"""
