"""The four data sets, from a folder that the user names. Nothing of them is kept in the project.

Each loader checks that its files are there and that they are the very files the study was written for (their SHA-256
stands in the folder's SHA256SUMS). A frame is a mapping from names to arrays, which `us.fit` takes as it is.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Frame = dict[str, NDArray[Any]]

SOURCES = {
    "candanedo": "github.com/LuisM78/Occupancy-detection-data",
    "sdu_ou44": "github.com/EBC-Annex-79/Data-Driven-Occupant-Modeling",
    "iotsec": "github.com/IoTsec/Room-Climate-Datasets",
    "robod": "github.com/ideas-lab-nus/robod",
}
CANDANEDO = {"train": "datatraining.txt", "test": "datatest.txt", "test2": "datatest2.txt"}


class DataError(Exception):
    """A file of the data that is missing, or is another than the study was written for."""


def checked(root: Path, folder: str, name: str) -> Path:
    """The path of a file of the data, if it is there and has the recorded SHA-256."""
    path = root / folder / name
    if not path.is_file():
        raise DataError(
            f"{path} is not there. The study needs the data set {folder!r} ({SOURCES.get(folder, 'unknown')}); "
            "name the folder that holds it with --data, or leave the set out with --only"
        )
    recorded = _recorded(root, folder).get(name)
    if recorded is None:
        raise DataError(f"no SHA256SUMS beside {path} has an entry for it; the study checks what it reads")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != recorded:
        raise DataError(f"{path} has the SHA-256 {found[:12]}..., and {recorded[:12]}... is recorded: another file")
    return path


def _recorded(root: Path, folder: str) -> dict[str, str]:
    """File name -> SHA-256, from the list in the folder or from the one above it."""
    found: dict[str, str] = {}
    for place in (root / "SHA256SUMS", root / folder / "SHA256SUMS"):
        if place.is_file():
            for line in place.read_text(encoding="utf-8").splitlines():
                digest, _, name = line.strip().partition(" ")
                name = name.strip().lstrip("*").removeprefix("./")
                where, _, last = name.rpartition("/")
                if where in ("", folder):
                    found[last] = digest
    return found


def candanedo(root: Path) -> dict[str, Frame]:
    """One office: CO2, temperature, humidity, light and presence, a row a minute; train, test and test2."""
    found = {}
    for name, file in CANDANEDO.items():
        rows = _rows(checked(root, "candanedo", file))
        # the header has no name for the first column, which counts the rows
        names, rows = rows[0], [row[1:] if len(row) > len(rows[0]) else row for row in rows[1:]]
        frame = _columns(names, rows, numbers=[n for n in names if n != "date"])
        frame["date"] = frame["date"].astype("datetime64[s]")
        frame["Occupancy"] = frame["Occupancy"].astype(int)
        found[name] = frame
    return found


def sdu(root: Path, room: int) -> Frame:
    """One room of OU44: day, time of day, weekday, CO2, people and damper, a row a minute; days are shuffled."""
    frame: Frame = {}
    for kind, column in (("co2", "co2"), ("occ", "people"), ("vav", "damper")):
        rows = _rows(checked(root, "sdu_ou44", f"{kind}_data_room_{room}.csv"))
        part = _columns(rows[0], rows[1:], numbers=[n for n in rows[0] if n != "Time"])
        if not frame:
            frame = {"day": part["DayId"].astype(int), "time": part["Time"], "weekday": part["Weekday"].astype(int)}
        elif not (np.array_equal(frame["day"], part["DayId"]) and np.array_equal(frame["time"], part["Time"])):
            raise DataError(f"room {room}: the rows of {kind}_data are not those of co2_data")
        frame[column] = part[f"Room {room}"]
    frame["people"] = frame["people"].astype(int)
    return frame


def iotsec(root: Path) -> dict[str, Frame]:
    """Three locations: file, node, seconds, temperature, humidity and people, means over 30 s."""
    rows = _rows(checked(root, "iotsec", "room_climate_30s.csv.gz"))
    numbers = [n for n in rows[0] if n != "loc"]
    whole = _columns(rows[0], rows[1:], numbers)
    found = {}
    for place in sorted(set(whole["loc"].tolist())):
        part = where(whole, whole["loc"] == place)
        for name in ("file", "node", "bin", "occ"):
            part[name] = part[name].astype(int)
        part["seconds"] = part["bin"] * 30
        part["people"] = part["occ"]
        found[place] = part
    return found


def robod(root: Path, room: int) -> Frame:
    """One room of ROBOD: time, CO2, presence and count, a row every five minutes; CO2 is missing here and there."""
    rows = _rows(checked(root, "robod", f"combined_Room{room}.csv"))
    part = _columns(rows[0], rows[1:], numbers=["indoor_co2", "occupant_presence", "occupant_count"])
    # the clock on the wall: the zone is the same throughout
    local = np.array([text[:16] for text in part["timestamp"].tolist()], dtype="datetime64[s]")
    return {
        "time": local,
        "co2": part["indoor_co2"],
        "present": part["occupant_presence"].astype(int),
        "people": part["occupant_count"].astype(int),
    }


def where(frame: Frame, rows: Any) -> Frame:
    """Some rows of a frame."""
    return {name: column[rows] for name, column in frame.items()}


def _rows(path: Path) -> list[list[str]]:
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    return [row for row in csv.reader(text.splitlines()) if row]


def _columns(names: list[str], rows: list[list[str]], numbers: Iterable[str]) -> Frame:
    """Columns by name; those of numbers as floats, empty ones as NaN."""
    wanted = set(numbers)
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    return {
        name: np.array([float(x) if x else np.nan for x in column]) if name in wanted else np.array(column)
        for name, column in columns.items()
    }
