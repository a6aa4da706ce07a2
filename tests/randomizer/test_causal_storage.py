"""Causal designs as files: the same decisions come back, and what does not hold together is refused."""

import json

import numpy as np
import pytest
from causal_cases import HAMMING, STAY, bits
from helpers import room

import understudy as us
from understudy import serialize as document
from understudy.errors import StoredFileError
from understudy.randomizer.causal import design_causal
from understudy.randomizer.design import VERSION


def stored():
    """A room whose models can be kept: a mapping, not a function of the user's."""
    family = us.Family({v: room(v) for v in (0, 0.5, 1)}, values=[0, 1], prior=[0.7, 0.3], about={"period": 60.0})
    return design_causal(family, STAY, [0, 0.5, 1], rate=0.05, horizon=50, distortion="mae", decision_every=15)


def test_the_same_design_comes_back(tmp_path):
    """Figures, kernels, fingerprint, and what is said about the family."""
    made = stored()
    mark = made.save(tmp_path / "room.json")
    again = us.load_design(tmp_path / "room.json")
    assert mark.startswith("sha256:")
    assert repr(again) == repr(made)
    assert again.fingerprint == made.fingerprint
    assert again.long_run == made.long_run
    assert again.demand == made.demand
    assert again.family.about == {"period": 60.0}
    for p in np.linspace(0.0, 1.0, 11).tolist():
        assert np.array_equal(again.kernel((p, 1.0 - p)), made.kernel((p, 1.0 - p)))


def test_a_stream_goes_on_under_a_loaded_design(tmp_path):
    """The fingerprint is the same, so that a ledger takes the design from the file for the one it knows."""
    made = stored()
    made.save(tmp_path / "room.json")
    with us.Ledger(tmp_path / "ledger", rollback_guard=False) as ledger:
        made.stream(1, ledger=ledger, name="lab").apply([100.0] * 20)
        again = us.Stream.open(ledger, us.load_design(tmp_path / "room.json"), "lab")
        again.apply([100.0] * 20)
        assert again.count == 40


def test_a_simulated_long_run_is_kept(tmp_path):
    """Three values without a closed form: the claim comes back as it was, within what a simulation allows."""
    family = us.Family({v: room(v) for v in (0, 1, 2)})
    stay = [[0.9, 0.07, 0.03], [0.1, 0.8, 0.1], [0.02, 0.2, 0.78]]
    made = design_causal(family, stay, slope=0.02, horizon=20, distortion="mae", rng=5)
    made.save(tmp_path / "room.json")
    assert us.load_design(tmp_path / "room.json").long_run == made.long_run


def test_models_that_hold_functions_are_attached_again(tmp_path):
    """Saved without models, a design wants its family, and that one."""
    made = design_causal(us.Family(room, [0, 1]), STAY, rate=0.05, horizon=50, distortion="mae")
    made.save(tmp_path / "room.json", models=False)
    with pytest.raises(StoredFileError, match="give the family"):
        us.load_design(tmp_path / "room.json")
    assert us.load_design(tmp_path / "room.json", us.Family(room, [0, 1])).fingerprint == made.fingerprint
    with pytest.raises(StoredFileError, match="not the one"):
        us.load_design(tmp_path / "room.json", bits())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("slope", 0.5), ("slope", "x"), ("decision_every", 0), ("estimated", 1), ("demand", ["budget", 1.0]),
        ("transitions", [[[1.0, 0.0]]]), ("cost", [[0.0]]), ("prior", [0.5, 0.5]), ("long_run", {}),
    ],
)  # fmt: skip
def test_what_does_not_hold_together_is_refused(tmp_path, field, value):
    """A file with a right fingerprint and wrong content; its content is not repeated."""
    path = tmp_path / "room.json"
    stored().save(path)
    content = document.read(path, "causal design", [VERSION]).content
    content[field] = value
    document.write(path, content, "causal design", VERSION)
    with pytest.raises(StoredFileError):
        us.load_design(path)


def test_a_file_that_was_edited_is_refused(tmp_path):
    """The fingerprint tells."""
    path = tmp_path / "room.json"
    design_causal(us.Family({0: room(0), 1: room(1)}), STAY, slope=1.0, distortion=HAMMING).save(path)
    text = json.loads(path.read_text())
    text["content"]["decision_every"] = 2
    path.write_text(json.dumps(text))
    with pytest.raises(StoredFileError, match="fingerprint"):
        us.load_design(path)
