"""The form of what leaves is the design's: no decimal, width, type or packing tells how the raw readings were written.

A sensor prints six significant digits: 85.1234 at one level, 115.123 at the other. Version 0.1 learned the decimals of
its outputs from the rows of the file, and so named the level in every file.
"""

import functools
import json
import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.stats

import understudy as us
from understudy.apply.apply_file import apply_file

LEVELS = (85.0, 115.0)
ROWS = 12
LEARN, JUDGE = 24, 80  # files that the attack learns from, and files whose level it guesses
ALPHA = 1e-6


def room(level):
    return us.GaussMarkov(A=0.5, C=1.0, Q=0.75, R=0.01, b=0.5 * level, mean0=level, cov0=1.0)


@functools.cache
def design_of(kind):
    """A design with one pseudo value, so that only the form of an output could tell.

    On the lattice: models of continuous readings, for files too short to be refused. On a grid: the form is declared.
    """
    options = {"pseudo": [100.0], "leakage": 0.3, "horizon": 8, "distortion": "mse", "accuracy": 0.3, "rng": 1}
    if kind == "lattice":
        return us.design(us.Family(room, values=LEVELS), **options)
    family = us.Family(lambda level: us.Quantised(room(level), step=0.125), values=LEVELS)
    return us.design(family, readings="6 digits", valid=(0.0, 200.0), **options)


def raw_files(folder, ending):
    """Files of a sensor with six significant digits: their paths and their levels, each level as often."""
    levels = LEVELS * ((LEARN + JUDGE) // 2)
    paths = []
    for k, level in enumerate(levels):
        texts = [f"{y:.6g}" for y in us.sample(room(level), ROWS, rng=1000 + k).ravel().tolist()]
        paths.append(folder / f"{k}.{ending}")
        if ending == "csv":
            paths[-1].write_text("co2,level\n" + "".join(f"{text},{level}\n" for text in texts))
        elif ending == "jsonl":
            paths[-1].write_text("".join(f'{{"co2": {text}, "level": {level}}}\n' for text in texts))
        else:
            table = pa.table({"co2": [Decimal(text) for text in texts], "level": [level] * ROWS})
            pq.write_table(table, paths[-1])
    return paths, np.array(levels)


def number_texts(path):
    """The texts of the readings of a file."""
    if path.suffix == ".csv":
        return path.read_text().split()[1:]
    return [re.search(r'"co2": ([^,}]*)', line)[1] for line in path.read_text().splitlines()]


def form(path):
    """All that is fixed about how a file is written."""
    if path.suffix == ".parquet":
        file = pq.ParquetFile(path)
        column = file.metadata.row_group(0).column(0)
        kept = (column.physical_type, column.compression, column.encodings, column.has_dictionary_page)
        return (str(file.schema_arrow.field("co2").type), *kept)
    texts = number_texts(path)
    decimals = {len(text.partition(".")[2]) for text in texts}
    return (tuple(sorted(decimals)), *({mark in text for text in texts} == {True} for mark in ".eE+-"))


def features(path):
    """Numbers about the form of a file, for the attack to choose from."""
    found = [path.stat().st_size]
    if path.suffix == ".parquet":
        file = pq.ParquetFile(path)
        column, kind = file.metadata.row_group(0).column(0), file.schema_arrow.field("co2").type
        values = [str(value) for value in file.read()["co2"].to_pylist()]
        found += [column.total_compressed_size, column.total_uncompressed_size, len(column.encodings)]
        found += [len(str(kind)), getattr(kind, "scale", -1), kind.bit_width]
    else:
        values = number_texts(path)
    decimals = [len(text.partition(".")[2]) for text in values]
    widths = [len(text) for text in values]
    zeros = [len(text) - len(text.rstrip("0")) for text in values]
    for numbers in (decimals, widths, zeros):
        found += [min(numbers), max(numbers), float(np.mean(numbers)), len(set(numbers))]
    return found + [sum(text.count(mark) for text in values) for mark in "eE+-"]


def attack(X, levels):
    """Guesses of the level: the threshold on one number that does best on the first files, used on the others."""
    truth = levels == LEVELS[1]
    best = (0.0, None)
    for j in range(X.shape[1]):
        for cut in np.unique(X[:LEARN, j]):
            for above in (True, False):
                right = float(np.mean(((X[:LEARN, j] >= cut) == above) == truth[:LEARN]))
                best = max(best, (right, (j, cut, above)), key=lambda found: found[0])
    j, cut, above = best[1]
    return int((((X[LEARN:, j] >= cut) == above) == truth[LEARN:]).sum())


def p_value(right):
    return scipy.stats.binomtest(right, JUDGE, 0.5).pvalue


def disguised(kind, paths, ending):
    """What the files become."""
    outs = [path.with_name(f"out-{path.name}") for path in paths]
    for k, (path, out) in enumerate(zip(paths, outs, strict=True)):
        apply_file(design_of(kind), path, out, reading="co2", private="level", rng=k)
    return outs


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_the_form_of_an_output_does_not_tell_the_level(tmp_path, ending):
    """80 files: guesses by their form are right by chance (false alarm 1e-6), and all have one form.

    The twin, which writes the same outputs with the decimals of the rows that came in, is found.
    """
    paths, levels = raw_files(tmp_path, ending)
    outs = disguised("grid", paths, ending)
    assert len({form(path) for path in outs}) == 1
    right = attack(np.array([features(path) for path in outs]), levels)
    assert p_value(right) > ALPHA
    twins = [twin(raw, out, raw.with_name(f"twin-{raw.name}")) for raw, out in zip(paths, outs, strict=True)]
    found = attack(np.array([features(path) for path in twins]), levels)
    assert found > JUDGE / 2
    assert p_value(found) < ALPHA
    assert len({form(path) for path in twins}) > 1


@pytest.mark.sample(default=2, seconds=3, reason="six formats")
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("kind", ["lattice", "grid"])
def test_all_files_of_a_design_have_one_form(tmp_path, kind, ending):
    """Decimals, exponents and signs of texts; type, packing and encoding of a typed column.

    Models of full doubles have it too, for the few readings that pass before those of six digits are refused. (What
    the *values* of readings on a grid tell that nobody declared is another matter, and why they are refused.)
    """
    paths, _ = raw_files(tmp_path, ending)
    forms = {form(path) for path in disguised(kind, paths[:60], ending)}
    assert len(forms) == 1
    expected = "double" if ending == "parquet" else (3,) if kind == "grid" else (4,)
    assert forms.pop()[0] == expected
    assert len({form(path) for path in paths}) > 1


def twin(raw, out, path):
    """The outputs with the decimals of the raw rows, as 0.1 wrote them; its Parquet kept the type of the column."""
    if raw.suffix == ".parquet":
        kind = pq.read_schema(raw).field("co2").type
        values = pq.read_table(out)["co2"].to_pylist()
        texts = [Decimal(f"{value:.{kind.scale}f}") for value in values]
        pq.write_table(pa.table({"co2": pa.array(texts, pa.decimal128(9, kind.scale))}), path)
        return path
    texts = [text.split(",")[0] for text in raw.read_text().split()[1:]] if raw.suffix == ".csv" else number_texts(raw)
    decimals = max(len(text.partition(".")[2]) for text in texts)
    made = [f"{float(text):.{decimals}f}" for text in number_texts(out)]
    if raw.suffix == ".csv":
        path.write_text("\n".join(["co2", *made, ""]))
    else:
        path.write_text("".join(f'{{"co2": {text}, "disguised": true}}\n' for text in made))
    return path


def test_a_reading_of_another_form_than_declared_stops_the_run(tmp_path):
    """The rule is that of the design, and names the position, not the value."""
    (tmp_path / "in.csv").write_text("co2,level\n85.1234,85.0\n85.12345,85.0\n")
    with pytest.raises(us.errors.ReadingError, match="reading 1 is not of the form that the design declares") as caught:
        apply_file(design_of("grid"), tmp_path / "in.csv", tmp_path / "out.csv", reading="co2", private="level")
    assert "85.1" not in str(caught.value)
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("decimals", [0, 1, 6])
def test_decimals_can_be_given(tmp_path, decimals):
    """`decimals=` is the form of all outputs in every format; without a point they are whole numbers of 64 bits."""
    texts = [repr(y) for y in us.sample(room(85.0), 30, rng=1).ravel().tolist()]
    source = tmp_path / "in.csv"
    source.write_text("co2,level\n" + "".join(f"{text},85.0\n" for text in texts))
    names = {"reading": "co2", "private": "level", "rng": 4}
    apply_file(design_of("lattice"), source, tmp_path / "plain.csv", **names)
    plain = [float(text) for text in number_texts(tmp_path / "plain.csv")]
    for ending in ("csv", "jsonl", "parquet"):
        apply_file(design_of("lattice"), source, tmp_path / f"out.{ending}", decimals=decimals, **names)
    found = number_texts(tmp_path / "out.csv")
    assert {len(text.partition(".")[2]) for text in found} == {decimals}
    assert number_texts(tmp_path / "out.jsonl") == found
    np.testing.assert_allclose([float(text) for text in found], plain, rtol=0.0, atol=0.5 * 10.0**-decimals + 6e-5)
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.schema.field("co2").type == (pa.float64() if decimals else pa.int64())
    assert table["co2"].to_pylist() == [float(text) for text in found]
    assert json.loads((tmp_path / "out.csv.meta.json").read_text())["resolution"] == list(
        design_of("lattice").resolution
    )


@pytest.mark.parametrize("decimals", [-1, 16, 2.0, True, "2"])
def test_decimals_are_a_whole_number(tmp_path, decimals):
    """What is none is refused before anything is read."""
    with pytest.raises(us.errors.ConfigurationError, match="decimals = "):
        apply_file(design_of("lattice"), tmp_path / "no.csv", tmp_path / "out.csv", reading="co2", private="level",
                   decimals=decimals)  # fmt: skip


def test_models_with_atoms_and_no_grid_ask_for_decimals(tmp_path):
    """The design does not know how its outputs are written, and does not guess."""
    family = us.Family(lambda v: us.IID(us.Atoms([400.0, 410.5], [0.5 + 0.2 * v, 0.5 - 0.2 * v])), values=[0, 1])
    design = us.design(family, leakage=0.1, horizon=5, distortion="mae")
    (tmp_path / "in.csv").write_text("co2,people\n400.0,0\n410.5,1\n")
    names = {"reading": "co2", "private": "people"}
    with pytest.raises(us.errors.ConfigurationError, match="decimals is missing"):
        apply_file(design, tmp_path / "in.csv", tmp_path / "out.csv", **names)
    apply_file(design, tmp_path / "in.csv", tmp_path / "out.csv", decimals=1, **names)
    assert set(number_texts(tmp_path / "out.csv")) <= {"400.0", "410.5"}
