"""`understudy design` with constraints: for the paper's room and for a family, alone and with a leakage."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cli_cases import refused

import understudy as us
from understudy.randomizer.constraints import Floor, Forbidden, LocalDP, MaximalLeakage, Same


def test_the_room_with_constraints_alone(understudy):
    """Without a demand the constraints are all that is asked; the design says them in words."""
    told = understudy("design", "--local-dp", "1", "--floor", "0.01")
    assert told.status == 0, told.err
    assert "constraints alone" in told.out
    assert LocalDP(1.0).words in told.out
    assert "The floor of 0.01 costs 1.046: the distortion is 35.9677 with it and" in " ".join(told.out.split())
    found = json.loads(understudy("design", "--local-dp", "1", "--floor", "0.01", "--json").out)
    kernel = np.array(found["kernel"])
    assert LocalDP(1.0).holds([0.5, 0.5], kernel)
    assert kernel.min() >= 0.01
    assert found["constraints"] == [
        {"kind": "local_dp", "epsilon": 1.0, "words": LocalDP(1.0).words},
        {"kind": "floor", "at_least": 0.01, "words": Floor(0.01).words},
    ]
    assert found["price_of_floor"] == pytest.approx(1.046, abs=1e-3)


def test_a_family_with_every_option(files, tmp_path, understudy):
    """The file is the design that Python makes with the same constraints."""
    path = tmp_path / "d.json"
    told = understudy(
        "design", files / "family.json", "--leakage", "0.3bit", "--local-dp", "2", "--maximal-leakage", "0.5 bit",
        "--pointwise-leakage", "0.6", "--total-variation", "0.5", "--floor", "0.004", "-o", path,
    )  # fmt: skip
    assert told.status == 0, told.err
    found = us.load_design(path)
    names = [one.name for one in found.constraints]
    assert names == ["local_dp", "maximal_leakage", "pointwise_leakage", "total_variation", "floor"]
    assert found.constraints[1] == MaximalLeakage(0.5 * np.log(2.0))
    assert all(one.holds(found.prior, found.randomizer.kernel) for one in found.constraints)


def test_pairs_and_groups_by_their_names(understudy):
    """Values of the room are numbers, however they are written."""
    options = ("--values", "0,1,2", "--forbid", "0:1, 2:0.2", "--same", "1,2", "--leakage", "0.2", "--json")
    found = json.loads(understudy("design", *options).out)
    kernel = np.array(found["kernel"])
    assert kernel[0, 5] == kernel[2, 1] == 0.0
    assert (kernel[1] == kernel[2]).all()
    words = [one["words"] for one in found["constraints"]]
    assert words == [Forbidden([(0, 1), (2, 0.2)]).words, Same([[1, 2]]).words]


def test_options_that_are_repeated_add_up(understudy):
    """Pairs and groups that are typed one by one are all kept."""
    once = ("--values", "0,1,2,3", "--leakage", "0.2", "--json", "--forbid", "0:0,1:1", "--same", "0,1;2,3")
    each = (*once[:5], "--forbid", "0:0", "--forbid", "1:1", "--same", "0,1", "--same", "2,3")
    one, other = (json.loads(understudy("design", *options).out) for options in (once, each))
    assert one == other
    kernel = np.array(one["kernel"])
    assert kernel[0, 0] == kernel[1, 5] == 0.0
    assert (kernel[0] == kernel[1]).all()
    assert (kernel[2] == kernel[3]).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--local-dp", "99"), "--local-dp 99.0: LocalDP: epsilon = 99.0; it must be a number between 0 and 20"),
        (("--maximal-leakage", "30%"), "--maximal-leakage 30%: nats or bits are wanted"),
        (("--pointwise-leakage", "much"), "--pointwise-leakage much: nats or bits are wanted"),
        (("--forbid", "0"), "--forbid 0: pairs are wanted"),
        (("--forbid", "0:7"), "--forbid: '7' is none of 0, 0.2, 0.4, 0.6, 0.8, 1"),
        (("--same", "0,3"), "--same: '3' is none of 0, 1"),
        (("--floor", "0.3"), "Floor(0.3): 6 probabilities of at least 0.3 sum to more than 1"),
    ],
)
def test_what_was_typed_wrong_is_named(understudy, options, words):
    """The option, the value and the rule."""
    refused(understudy("design", *options), words)


def test_draws_that_remember_take_none(files, understudy):
    """Constraints are for one draw a run."""
    told = understudy("design", files / "family.json", "--per", "day", "--leakage", "1bit", "--local-dp", "1")
    refused(told, "--local-dp goes with --per run")


def test_a_report_of_a_design_with_constraints(tmp_path, understudy):
    """The page has the card, and the card has the words."""
    understudy("design", "--maximal-leakage", "0.3", "-o", tmp_path / "d.json")
    told = understudy("report", tmp_path / "d.json", "-o", tmp_path / "r.html")
    assert told.status == 0, told.err
    assert "Maximal leakage of at most 0.3 nats" in (tmp_path / "r.html").read_text()
