"""What a notebook shows: whole pieces of HTML, escaped, without scripts, and without secrets."""

from __future__ import annotations

import re

import numpy as np
import pytest
from page_cases import parsed

import understudy as us


def room(occupants):
    return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * occupants, mean0=100.0, cov0=1.0)


FAMILY = us.Family(room, values=[0, 1], prior=[0.25, 0.75])
DESIGN = us.design(FAMILY, leakage=0.1, horizon=50, distortion="mae")


def shown():
    """One value of each kind."""
    audit = us.audit(DESIGN, adversaries=["exact"], n=200, rng=1)
    curve = us.frontier(FAMILY, horizon=50, distortion="mae")
    causal = us.design_causal(us.Family(room, values=[0, 1]), [[0.9, 0.1], [0.1, 0.9]], rate=0.05, distortion="mae")
    stream = DESIGN.stream(theta=1, name="<b>lab</b>", rng=5)
    stream.apply(100.0 + np.arange(7.0))
    return {
        "design": DESIGN,
        "card": DESIGN.guarantee,
        "solution": us.solve([[0.0, 1.0], [1.0, 0.0]], leakage=0.1),
        "causal": causal,
        "coin": us.design_coin(q=0.5, epoch=7, constant=1.0),
        "frontier": curve,
        "family": us.Family({"<i>": room(0), "b": room(1)}),
        "audit": audit,
        "stream": stream,
    }


SHOWN = {name: value._repr_html_() for name, value in shown().items()}


@pytest.mark.parametrize("name", SHOWN)
def test_each_is_one_whole_piece_without_scripts(name):
    """Well-formed, styled by itself, loading nothing, and with a caption above each table."""
    piece = SHOWN[name]
    parsed(piece)
    assert not re.search(r"<script|javascript:|\son\w+=|https?://(?!www\.w3\.org)|url\(", piece)
    assert piece.count("<table") == piece.count("<caption")


def test_names_and_values_are_escaped():
    """What a user wrote is text."""
    assert "<b>" not in SHOWN["stream"]
    assert "&lt;b&gt;lab&lt;/b&gt;" in SHOWN["stream"]
    assert "&lt;i&gt;" in SHOWN["family"]


def test_a_stream_shows_its_name_epoch_count_and_charge_alone():
    """Two streams that differ in the private value, the draw and the readings alone show the same."""
    pieces = set()
    for theta, seed in ((0, 1), (1, 2), (1, 3)):
        stream = DESIGN.stream(theta=theta, name="lab", rng=seed)
        stream.apply(100.0 + seed * np.arange(7.0))
        pieces.add(stream._repr_html_())
    assert len(pieces) == 1
    cells = re.findall(r"<td>(.*?)</td>", pieces.pop())
    assert cells == ["0", "7", "0.1"]


def test_a_frontier_shows_a_dozen_of_its_points():
    """From the first to the last."""
    rows = re.findall(r"<tr><th scope=.row.*?</tr>", SHOWN["frontier"])
    curve = us.frontier(FAMILY, horizon=50, distortion="mae")
    assert len(rows) == 12
    assert f"{curve.leakages[0]:.3f}" in rows[0]
    assert f"{curve.leakages[-1]:.3f}" in rows[-1]


def test_an_audit_shows_each_adversary_once():
    """With its verdict first."""
    audit = us.audit(DESIGN, adversaries=["exact"], n=200, rng=1)
    assert SHOWN["audit"].count("<tr>") == 1 + len(audit.rows)
