"""Files and requests that are wrong: each is told in the library's words, never with a value of the data."""

from __future__ import annotations

import concurrent.futures
import json
import re

import pytest
from studio_cases import history, studio

import understudy as us

pytestmark = pytest.mark.browser

KNOWN = "731.918273"  # a reading that stands in each bad file, and must not be seen


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with studio(tmp_path_factory.mktemp("bad"), "--limit", "3") as found:
        yield found.enter()


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return history(tmp_path_factory.mktemp("good") / "room.csv", days=8).read_text()


def rows(count: int, reading=lambda k: f"{400 + 7 * (k % 13)}.25", people=lambda k: k // 50 % 2, zone="") -> str:
    """A history of so many rows, a minute apart."""
    lines = [
        f"2026-03-{1 + k // 1440:02d} {k // 60 % 24:02d}:{k % 60:02d}:00{zone},{reading(k)},{people(k)}"
        for k in range(count)
    ]
    return "time,co2,occupancy\n" + "\n".join(lines) + "\n"


COLUMNS = {"reading": ["co2"], "private": "occupancy", "time": "time"}


def told(running, name: str, content: bytes, fit: bool = False) -> tuple[str, dict]:
    """What the page says of a file: the refusal of its upload, or the failure of what comes next."""
    found = running.upload(name, content)
    if found.status != 200:
        return found.json["error"], {}
    state = running.settle()
    if state["failure"] is None:
        running.post("/api/data", COLUMNS)
        state = running.settle()
    if state["failure"] is None and fit:
        running.post("/api/fit", {"model": "grey-box"})
        state = running.settle()
    return (state["failure"] or {}).get("words", ""), state


def test_another_delimiter_is_found(running, good):
    """Semicolons are read off the header, and the commands name them."""
    words, state = told(running, "semicolon.csv", good.replace(",", ";").encode())
    assert words == ""
    assert (state["columns"]["delimiter"], state["data"]["rows"]) == (";", 768)


def test_a_byte_order_mark_is_no_part_of_a_name(running, good):
    """A file from a spreadsheet reads as one without the mark."""
    words, state = told(running, "mark.csv", b"\xef\xbb\xbf" + good.encode())
    assert words == ""
    assert state["found"]["names"] == ["time", "co2", "occupancy"]


BAD = {
    "no header": ("plain.csv", rows(300).split("\n", 1)[1], "names of the columns", False),
    "mixed time zones": (
        "zones.csv", rows(300, zone="+01:00").replace("00:30:00+01:00", "00:30:00"), "zone", False,
    ),
    "one value only": ("one.csv", rows(600, people=lambda k: 1), "value", True),
    "a constant reading": ("constant.csv", rows(600, reading=lambda k: KNOWN), "never changes", True),
    "twelve rows": ("short.csv", rows(12, people=lambda k: k % 2), "rows|readings|few", True),
    "a reading that is none": ("word.csv", rows(300).replace("400.25", "much", 1), "finite number", False),
    "an empty file": ("empty.csv", "", "empty", False),
    "no UTF-8": ("bytes.csv", "time,co2,occupancy\n\udcff", "UTF-8", False),
    "another ending": ("room.docx", rows(20), "ending", False),
    "JSON of somebody else": ("other.json", '{"a": 1}', "family or a design", False),
    "no JSON": ("broken.json", "{", "JSON|family or a design", False),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_told_in_words(running, name):
    """A sentence says what is wrong; no reading of the file is in it, and the studio goes on."""
    file, content, wanted, fit = BAD[name]
    words, _ = told(running, file, content.encode("utf-8", "surrogateescape"), fit)
    assert re.search(wanted, words), words
    assert "fault of the program" not in words
    assert KNOWN not in words
    assert "400.25" not in words
    assert running.get("/api/state").status == 200


def test_a_file_beyond_the_limit_is_refused_before_it_is_read(running):
    """Its length is announced; two gigabytes are refused at once, and nothing is kept of them."""
    found = running.request(
        "POST", "/api/open", {"x-understudy": "studio", "x-file-name": "big.csv", "Content-Length": str(2 << 30)}
    )
    assert found.status == 413
    assert not list(running.folder.rglob("big.csv"))


def test_a_large_file_on_the_command_line_is_refused(tmp_path):
    """The rule names the file, its size and the limit."""
    path = history(tmp_path / "room.csv", days=500)
    with (
        pytest.raises(RuntimeError, match=r"room\.csv has .* MB; the studio takes .* MB"),
        studio(tmp_path, path, "--limit", "1"),
    ):
        pass  # pragma: no cover


def opened_room(running) -> None:
    """The paper's room, whose slider needs no job."""
    assert running.post("/api/room").status == 200


def solve(running, number: int, amount, demand: str = "leakage", tab: str = "t"):
    """One move of the slider."""
    return running.post("/api/solve", {"tab": tab, "number": number, "demand": demand, "amount": amount})


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        ("NaN", "0 or more"),
        ("-1", "0 or more"),
        ("0.1 parsec", "leakage"),
        ("", "leakage"),
        ("inf bit", "number of nats"),
        (None, "amount"),
        ("101%", "at most 100%"),
    ],
)
def test_an_amount_that_is_none_is_refused_by_the_library(running, amount, words):
    """The page shows the library's own sentence, and the design stays."""
    opened_room(running)
    before = running.get("/api/design").json["facts"]["fingerprint"]
    found = solve(running, 1, amount, tab=f"bad {amount}")
    assert found.status == 422
    assert words in found.json["error"]
    assert running.get("/api/design").json["facts"]["fingerprint"] == before


def test_the_ends_of_the_slider(running):
    """Nothing may leak: one column for all. All may leak: no distortion, and the page warns that nothing is hidden."""
    opened_room(running)
    nothing = solve(running, 1, "0 nats", tab="ends").json
    assert nothing["nats"] == 0.0
    assert nothing["kernel"][0] == nothing["kernel"][1]
    everything = solve(running, 2, "100%", tab="ends").json
    assert everything["distortion"] == 0.0
    assert running.get("/api/design").json["warnings"]


def test_requests_come_faster_than_they_can_be_answered(running):
    """Of 400 requests at once the newest decides; none fails, and what is stale says so."""
    opened_room(running)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda k: solve(running, k, f"{k / 1000} nats", tab="many"), range(400)))
    assert {each.status for each in found} == {200}
    assert sum("nats" in each.json for each in found) >= 1
    last = solve(running, 1000, "0.25 nats", tab="many").json
    assert last["nats"] == pytest.approx(0.25, abs=1e-9)
    assert solve(running, 999, "0.1 nats", tab="many").json == {"stale": True}
    assert running.get("/api/design").json["quick"]["nats"] == last["nats"]


def test_a_design_with_a_wrong_fingerprint_is_refused(running, tmp_path):
    """One digit of the kernel is changed; the sentence is that of `us.load_design`."""
    family = us.Family({0: us.IID(us.Gaussian(0.0, 1.0)), 1: us.IID(us.Gaussian(3.0, 1.0))})
    path = tmp_path / "design.json"
    us.design(family, leakage=0.1, distortion="mae").save(path)
    assert told_of_design(running, path.read_bytes()) is None
    document = json.loads(path.read_text())
    document["content"]["kernel"][0][0] -= 1
    document["content"]["kernel"][0][1] += 1
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(document))
    with pytest.raises(us.errors.StoredFileError) as refused:
        us.load_design(changed)
    words = told_of_design(running, changed.read_bytes())
    assert words.split(":", 1)[-1] == str(refused.value).split(":", 1)[-1]


def told_of_design(running, content: bytes) -> str | None:
    """The refusal of an uploaded design."""
    return running.upload("design.json", content).json.get("error")


def test_one_job_at_a_time_and_a_reload_in_its_middle(running, good):
    """A second job is refused while one runs; who reloads sees the first go on; a cancelled one changes nothing."""
    told(running, "room.csv", good.encode())
    before = running.get("/api/state").json
    assert running.post("/api/fit", {"model": "auto"}).status == 200
    second = running.post("/api/fit", {"model": "hidden"})
    assert second.status == 422
    assert "job is running" in second.json["error"]
    assert running.upload("room.csv", good.encode()).status == 422
    state = running.get("/api/state").json
    assert state["busy"]
    while state["job"] is None and state["busy"]:
        state = running.get("/api/state").json
    assert running.post("/api/cancel").status == 200
    after = running.settle()
    assert after["failure"]["cancelled"]
    assert after["fit"] == before["fit"]
    assert after["data"] == before["data"]
    assert running.children() == []


def test_a_result_is_known_by_content_and_options(running, good):
    """The same fit again takes no process; another option does."""
    told(running, "room.csv", good.encode(), fit=True)
    first = running.get("/api/state").json["fit"]["fingerprint"]
    began = running.get("/api/state").json["started"]
    running.post("/api/fit", {"model": "grey-box"})
    state = running.settle()
    assert (state["fit"]["fingerprint"], state["started"]) == (first, began)
    running.post("/api/fit", {"model": "independent"})
    assert running.settle()["started"] == began + 1


@pytest.mark.parametrize(
    ("path", "given"),
    [
        ("/api/data", {"reading": ["nobody"], "private": "occupancy"}),
        ("/api/data", {"reading": [], "private": "occupancy"}),
        ("/api/data", {"reading": ["co2"], "private": "co2"}),
        ("/api/data", {"reading": "co2"}),
        ("/api/pin", {"slot": 7}),
        ("/api/coin", {"q": 2, "epoch": 96}),
        ("/api/coin", {"q": 0.5, "epoch": "a day"}),
        ("/api/causal", {"decision_every": 0}),
        ("/api/base", {"horizon": 0}),
        ("/api/base", {"fresh": 2}),
        ("/api/base", {"distortion": "taste"}),
        ("/api/base", {"pseudo": []}),
        ("/api/tune", {"at_most": 1.5}),
        ("/api/looks", {"row": 99}),
        ("/api/solve", {"number": "x"}),
    ],
)
def test_requests_that_break_a_rule_are_told_so(running, good, path, given):
    """What a page would not send is refused with value and rule."""
    if running.get("/api/state").json["fit"] is None:
        told(running, "room.csv", good.encode(), fit=True)
    found = running.post(path, given)
    assert found.status == 422
    assert len(found.json["error"]) > 10


def test_a_body_that_is_no_object_is_refused(running):
    """JSON of another shape, and none at all."""
    for body in (b"[1]", b"{", b"7"):
        found = running.request("POST", "/api/fit", {"x-understudy": "studio"}, body)
        assert (found.status, "JSON" in found.json["error"]) == (422, True)
