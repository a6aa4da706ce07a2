"""Loaders of the study, on tiny files of the same layout."""

import gzip
import hashlib

import numpy as np
import pytest

from studies.real_data import data


def written(root, folder, name, text):
    """A file of the data with its entry in SHA256SUMS."""
    (root / folder).mkdir(exist_ok=True)
    raw = gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
    (root / folder / name).write_bytes(raw)
    with (root / "SHA256SUMS").open("a") as sums:
        sums.write(f"{hashlib.sha256(raw).hexdigest()}  {folder}/{name}\n")


def test_candanedo_drops_the_count_of_rows(tmp_path):
    """The header names seven of eight columns; the first, a count, is left out."""
    rows = '"1","2015-02-04 17:51:00",23.18,27.272,426,721.25,0.0048,1\n'
    rows += '"2","2015-02-04 17:51:59",23.1,27.2,429.5,714,0.0047,0\n'
    for file in data.CANDANEDO.values():
        written(
            tmp_path,
            "candanedo",
            file,
            '"date","Temperature","Humidity","Light","CO2","HumidityRatio","Occupancy"\n' + rows,
        )
    frames = data.candanedo(tmp_path)
    assert sorted(frames) == ["test", "test2", "train"]
    assert frames["train"]["CO2"].tolist() == [721.25, 714.0]
    assert frames["train"]["Occupancy"].tolist() == [1, 0]
    assert frames["test"]["date"][1] == np.datetime64("2015-02-04T17:51:59")


def test_sdu_joins_three_files_row_by_row(tmp_path):
    """CO2, people and damper stand side by side; rows that do not belong together are refused."""
    for kind, value in (("co2", "406.0"), ("occ", "3.0"), ("vav", "20.0")):
        text = f"DayId,Time,Weekday,Holiday,Room 1\n0,00:00:00,5,0,{value}\n"
        written(tmp_path, "sdu_ou44", f"{kind}_data_room_1.csv", text)
    frame = data.sdu(tmp_path, 1)
    assert {name: column.tolist() for name, column in frame.items()} == {
        "day": [0], "time": ["00:00:00"], "weekday": [5], "co2": [406.0], "people": [3], "damper": [20.0],
    }  # fmt: skip
    written(tmp_path, "sdu_ou44", "occ_data_room_1.csv", "DayId,Time,Weekday,Holiday,Room 1\n0,00:01:00,5,0,3.0\n")
    with pytest.raises(data.DataError, match="not those of co2_data"):
        data.sdu(tmp_path, 1)


def test_iotsec_is_split_by_location(tmp_path):
    """Seconds follow from the number of the bin, and each location is a frame."""
    text = (
        "loc,file,node,bin,T,RH,L1,L2,occ,act,door,win\nA,1,1,2,20.5,42.3,1,2,1,0,0,0\nB,4,2,0,21.0,40.0,1,2,0,0,0,0\n"
    )
    written(tmp_path, "iotsec", "room_climate_30s.csv.gz", text)
    frames = data.iotsec(tmp_path)
    assert sorted(frames) == ["A", "B"]
    assert frames["A"]["seconds"].tolist() == [60]
    assert frames["B"]["people"].tolist() == [0]


def test_robod_keeps_missing_readings(tmp_path):
    """An empty CO2 reading is NaN; times are those of the clock on the wall."""
    text = (
        "timestamp,voc,indoor_co2,occupant_presence,occupant_count\n"
        "2021-09-07 00:00 +08:00,1,430.1,0,0\n2021-09-07 00:05 +08:00,1,,1,2\n"
    )
    written(tmp_path, "robod", "combined_Room1.csv", text)
    frame = data.robod(tmp_path, 1)
    assert frame["time"][0] == np.datetime64("2021-09-07T00:00:00")
    assert np.isnan(frame["co2"]).tolist() == [False, True]
    assert frame["people"].tolist() == [0, 2]


def test_missing_data_are_told_with_the_source(tmp_path):
    """Without the file the error names it, where the data come from, and the options."""
    with pytest.raises(data.DataError, match=r"LuisM78.*--data.*--only"):
        data.candanedo(tmp_path)


def test_another_file_is_refused(tmp_path):
    """A file whose SHA-256 is not the recorded one is not read, nor one that has no record."""
    written(tmp_path, "iotsec", "room_climate_30s.csv.gz", "loc\nA\n")
    (tmp_path / "iotsec" / "room_climate_30s.csv.gz").write_bytes(b"else")
    with pytest.raises(data.DataError, match="another file"):
        data.iotsec(tmp_path)
    (tmp_path / "SHA256SUMS").write_text("")
    with pytest.raises(data.DataError, match="no SHA256SUMS"):
        data.iotsec(tmp_path)
