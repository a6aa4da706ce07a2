"""What the command line says, and does not say: warnings as one line, options for names, folders, other delimiters."""

from __future__ import annotations

import json
import warnings

import pytest
from cli_cases import WARNING, one_line, refused

import understudy as us
from understudy.apply.apply_file import MISFIT
from understudy.cli.terminal import plain_warnings
from understudy.errors import UnderstudyWarning
from understudy.text import NOTHING_HIDDEN


def test_a_warning_of_the_package_is_one_line_and_comes_once(capsys):
    """No path and no source line; warnings of others stay as they are."""

    def warned():
        with plain_warnings():
            for _ in range(2):
                warnings.warn("the draws\nare few", UnderstudyWarning, stacklevel=1)
            warnings.warn("another thing", ResourceWarning, stacklevel=1)

    with pytest.warns(ResourceWarning, match="another thing") as others:
        warned()
    told = capsys.readouterr().err
    assert told.startswith("understudy: warning: the draws are few\n")
    assert told.count("draws") == 1
    assert [each.category for each in others] == [ResourceWarning]


def test_the_card_of_a_misfit_has_the_warning_above_it(files, understudy):
    """On the standard output, once, so that a copy of the card carries it."""
    told = understudy("guarantee", files / "bad.json")
    assert one_line(told.out).count(WARNING) == 1
    assert told.out.startswith("WARNING: ")
    assert told.out.index("WARNING") < told.out.index("PRIVACY CARD")


@pytest.mark.parametrize(("design", "estimate"), [("bad.json", False), ("both.json", True)])
def test_the_mark_says_that_the_models_failed(files, tmp_path, understudy, design, estimate):
    """Accepted or not, whoever gets the file can read it; where the value is estimated too, that comes first."""
    path = files / design
    if estimate:
        from cli_cases import STAY, family

        path = tmp_path / design
        made = us.design_causal(family(passed=False, per="day"), STAY, rate=0.01, decision_every=15, distortion="mae")
        made.save(path)
    who = ("--estimate-private",) if estimate else ("--private", "occupancy")
    out = tmp_path / "out.csv"
    told = understudy("apply", path, files / "today.csv", "-o", out, *who, "--accept-misfit")
    assert told.status == 0, told.err
    found = json.loads((tmp_path / "out.csv.meta.json").read_text())["guarantee"]
    assert found.endswith(MISFIT)
    assert (found == MISFIT) is not estimate  # an estimated value comes first


def test_the_fingerprint_is_the_one_that_everything_else_shows(files, tmp_path, understudy):
    """Printed by `design`, and the same in the mark of what is disguised."""
    made = tmp_path / "d.json"
    told = understudy("design", files / "family.json", "--leakage", "0.1bit", "-o", made)
    assert f"(design {us.load_design(made).fingerprint})" in told.out
    understudy("apply", made, files / "today.csv", "-o", tmp_path / "out.csv", "--private", "occupancy")
    assert json.loads((tmp_path / "out.csv.meta.json").read_text())["design"] in told.out


@pytest.mark.parametrize("demand", [("--leakage", "30%"), ("--error-at-least", "0.3"), ("--distortion-at-most", "15")])
def test_a_value_that_moves_is_noted_for_every_demand(files, understudy, demand):
    """That asks for one draw: the distortion is for one that stays."""
    told = json.loads(understudy("design", files / "family.json", *demand, "--json").out)
    typed = json.loads(understudy("design", files / "family.json", *demand, "--per", "run", "--json").out)
    assert (told["per"], len(told["remarks"])) == ("run", 1 + len(typed["remarks"]))
    assert "--per day" in told["remarks"][0]
    assert told["remarks"][0] in one_line(understudy("design", files / "family.json", *demand).out)


def test_a_design_that_hides_nothing_says_so(files, understudy):
    """For a family, for the paper's room, and in JSON; not where something is hidden."""
    for arguments in ((files / "family.json", "--leakage", "100%"), ("--leakage", "100%")):
        assert NOTHING_HIDDEN in understudy("design", *arguments).err, arguments
    found = json.loads(understudy("design", files / "family.json", "--error-at-least", "0", "--json").out)
    assert NOTHING_HIDDEN in found["warnings"]
    assert understudy("design", files / "family.json", "--leakage", "0.1bit").err == ""


def test_causal_alone_is_a_tenth_of_a_bit_a_day(files, understudy):
    """And a leakage of a day is called what it is: a mean."""
    told = understudy("design", files / "family.json", "--causal")
    assert told.status == 0, told.err
    found = json.loads(understudy("design", files / "family.json", "--causal", "--json").out)
    assert (found["per"], found["leakage"]["bits_a_day"]) == ("day", pytest.approx(0.1, rel=1e-6))
    # every remark is printed, and each names what changes it
    assert all(remark in one_line(told.out.replace("Note: ", "")) for remark in found["remarks"])
    for name in ("--leakage", "--decision-every", "Ledger.limit"):
        assert any(name in remark for remark in found["remarks"]), name


def test_a_folder_is_called_a_folder(files, tmp_path, understudy):
    """As a history, as readings and as a design, with an ending or without."""
    (tmp_path / "rows.csv").mkdir()
    columns = ("--reading", "co2", "--private", "occupancy")
    for folder in (tmp_path, tmp_path / "rows.csv"):
        refused(understudy("fit", folder, *columns, "-o", tmp_path / "f.json"), "is a folder; a file is wanted")
    refused(understudy("guarantee", tmp_path), "folder")


def test_errors_name_options_and_not_arguments(files, tmp_path, understudy):
    """Of the library, which knows no options."""
    refused(understudy("design", files / "family.json", "--error-at-least", "1.4"), "--error-at-least 1.4")
    more = ("-o", tmp_path / "o.csv", "--private", "occupancy", "--keep", "occupancy", "--ledger", tmp_path / "l.db")
    refused(understudy("apply", files / "design.json", files / "today.csv", *more), "--keep ['occupancy']")
    (tmp_path / "rows.data").write_text("a\n")
    told = understudy("fit", tmp_path / "rows.data", "--reading", "a", "--private", "b", "-o", tmp_path / "f.json")
    refused(told, "--format says which")
