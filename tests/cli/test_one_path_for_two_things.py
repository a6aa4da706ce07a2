"""No command writes over what it reads, nor two things to one file; what is written to is a file."""

import os
import stat
import sys

import pytest

import understudy as us
from understudy.apply.apply_file import apply_file

posix = pytest.mark.skipif(os.name != "posix", reason="links and pipes as POSIX has them")
DATA = ("--reading", "co2", "--private", "occupancy", "--time", "date")
APPLY = ("--private", "occupancy")

# where the two paths of each pair go; a name that is not there yet is one that the command would make
PAIRS = {
    "apply: out is the ledger": ("apply", "design.json", "today.csv", "-o", 0, "--ledger", 1, *APPLY),
    "apply: out is the design": ("apply", 0, "today.csv", "-o", 1, *APPLY),
    "apply: out is the source": ("apply", "design.json", 0, "-o", 1, *APPLY),
    "apply: the ledger is the source": ("apply", "design.json", 0, "-o", "out.csv", "--ledger", 1, *APPLY),
    "apply: the ledger is the design": ("apply", 0, "today.csv", "-o", "out.csv", "--ledger", 1, *APPLY),
    "fit": ("fit", 0, "-o", 1, *DATA),
    "design: out is the family": ("design", 0, "-o", 1, "--leakage", "0.1"),
    "design: the picture is the family": ("design", 0, "--plot", 1, "--leakage", "0.1"),
    "design: out is the picture": ("design", "family.json", "-o", 0, "--plot", 1, "--leakage", "0.1"),
    "report: out is the design": ("report", 0, "-o", 1),
    "report: out is the audit": ("report", "design.json", "--audit", 0, "-o", 1),
    "guarantee": ("guarantee", 0, "--html", 1),
    "audit: out is the design": ("audit", 0, "-o", 1),
    "audit: saved over the design": ("audit", 0, "--save", 1),
    "audit: out is what is saved": ("audit", "design.json", "-o", 0, "--save", 1),
    "audit: out is the readings": ("audit", "design.json", "--on", 0, "-o", 1),
    "audit: out is what is learned from": ("audit", "design.json", "--on", "today.csv", "--train", 0, "-o", 1),
    "audit: saved over the release": ("audit", "design.json", "--on", "today.csv", "--released", 0, "--save", 1),
    "ledger export": ("ledger", "export", 0, "co2", "-o", 1),
}


def same(first, second, how):
    """`second` leads to the file `first`."""
    if how == "symbolic":
        second.symlink_to(first)
        return second
    if how == "hard":
        os.link(first, second)
        return second
    return first.parent / "." / ".." / first.parent.name / first.name


@pytest.mark.sample(default=20, seconds=4, reason="57 pairs of options")
@posix
@pytest.mark.parametrize("how", ["spelling", "symbolic", "hard"])
@pytest.mark.parametrize("pair", PAIRS)
def test_a_path_is_refused_where_another_of_the_command_leads(files, tmp_path, understudy, monkeypatch, pair, how):
    """By whatever name and link; and the file is as it was."""
    monkeypatch.chdir(files)
    ending = ".png" if "--plot" in PAIRS[pair] else ".csv"
    (tmp_path / f"room{ending}").write_text("as it was")
    paths = tmp_path / f"room{ending}", same(tmp_path / f"room{ending}", tmp_path / f"other{ending}", how)
    told = understudy(*(paths[part] if isinstance(part, int) else part for part in PAIRS[pair]))
    assert told.status == 1
    assert "are one file" in told.err
    assert all(path.read_text() == "as it was" for path in paths)
    assert not (files / "out.csv").exists()


@posix
@pytest.mark.parametrize("name", ["new.csv", "NEW.csv"])
def test_two_targets_that_will_be_one_file(files, tmp_path, understudy, name):
    """A target that is not there yet, through a link to its folder, or by a name that some disks take for the same."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    told = understudy(
        "apply", files / "design.json", files / "today.csv", *APPLY,
        "-o", tmp_path / "real" / "new.csv", "--ledger", tmp_path / "link" / name,
    )  # fmt: skip
    assert told.status == 1
    assert "--out and --ledger are one file" in told.err
    assert not list((tmp_path / "real").iterdir())


@pytest.mark.parametrize("part", ["-wal", "-shm", "-journal", ".lock"])
def test_the_parts_of_a_ledger_count(files, tmp_path, understudy, part):
    """The write-ahead log holds draws that are nowhere else."""
    told = understudy(
        "apply", files / "design.json", files / "today.csv", *APPLY, "--format", "csv",
        "-o", tmp_path / f"room.csv{part}.csv", "--ledger", tmp_path / "room.csv",
    )  # fmt: skip
    assert told.status == 0, told.err  # a name beside it is another file
    with pytest.raises(us.errors.ConfigurationError, match="target and ledger are one file"):
        apply_file(
            us.load_design(files / "design.json"), files / "today.csv", tmp_path / f"room.csv{part}",
            private="occupancy", ledger=tmp_path / "room.csv", target_format="csv",
        )  # fmt: skip


@pytest.mark.parametrize("of", ["ledger", "source", "design"])
def test_the_mark_beside_the_output_counts(files, tmp_path, understudy, of):
    """The mark is written too, under a name that nobody typed."""
    sidecar = tmp_path / "out.csv.meta.json"
    given = {"ledger": tmp_path / "room.db", "source": files / "today.csv", "design": files / "design.json"}
    if of != "ledger":
        sidecar.write_bytes(given[of].read_bytes())
    given[of] = sidecar
    before = sidecar.read_bytes() if of != "ledger" else None
    how = ("--format", "csv") if of == "source" else ()
    told = understudy(
        "apply", given["design"], given["source"], "-o", tmp_path / "out.csv", "--ledger", given["ledger"], *APPLY, *how
    )
    assert told.status == 1
    assert "are one file" in told.err
    assert before is None or sidecar.read_bytes() == before


@pytest.mark.parametrize("name", ["heldout.csv", "disguised.csv", "family.json", "disguised.csv.meta.json"])
def test_quickstart_does_not_write_over_its_history(files, tmp_path, understudy, name):
    """A history in the folder of the results, under the name of one of them."""
    history = tmp_path / name
    history.write_bytes((files / "history.csv").read_bytes())
    told = understudy("quickstart", history, "-o", tmp_path, "--format", "csv", *DATA)
    assert told.status == 1
    assert "are one file" in told.err
    assert history.read_bytes() == (files / "history.csv").read_bytes()


def test_apply_file_checks_an_open_ledger(files, tmp_path):
    """Whether the ledger is given as a path or open."""
    design = us.load_design(files / "design.json")
    with us.Ledger(tmp_path / "room.db") as ledger:
        before = (tmp_path / "room.db").read_bytes()
        with pytest.raises(us.errors.ConfigurationError, match="target and ledger are one file"):
            apply_file(
                design, files / "today.csv", tmp_path / "room.db", private="occupancy", ledger=ledger,
                target_format="csv",
            )  # fmt: skip
        assert (tmp_path / "room.db").read_bytes() == before


@posix
def test_the_standard_streams_count(files, tmp_path, understudy, monkeypatch):
    """The source through standard input, where the shell has opened it."""
    source = tmp_path / "today.csv"
    source.write_bytes((files / "today.csv").read_bytes())
    real = os.fstat
    monkeypatch.setattr(os, "fstat", lambda d: os.stat(source) if d == 0 else real(d))
    told = understudy("apply", files / "design.json", "-", "-o", source, *APPLY)
    assert told.status == 1
    assert "READINGS and --out are one file" in told.err
    assert source.read_bytes() == (files / "today.csv").read_bytes()


# What is written to ----------------------------------------------------------------------------------


WRITES = {
    "apply": ("apply", "design.json", "today.csv", "--format", "csv", *APPLY, "-o"),
    "design": ("design", "family.json", "--leakage", "0.1", "-o"),
    "report": ("report", "design.json", "-o"),
    "guarantee": ("guarantee", "design.json", "--html"),
    "audit": ("audit", "design.json", "--n", "100", "-o"),
    "fit": ("fit", "history.csv", *DATA, "-o"),
}


@posix
@pytest.mark.parametrize("command", WRITES)
def test_a_pipe_is_refused_and_stays(files, tmp_path, understudy, monkeypatch, command):
    """It would be replaced by a file, and whoever reads it would wait for ever."""
    monkeypatch.chdir(files)
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    told = understudy(*WRITES[command], pipe)
    assert told.status == 1
    assert "a device or a pipe" in told.err
    assert stat.S_ISFIFO(os.lstat(pipe).st_mode)


@posix
@pytest.mark.parametrize("device", ["/dev/null", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_devices_are_refused_and_the_way_out_is_named(files, device):
    """`-` is the standard output; its device would be cut off, or replaced where the user may."""
    design = us.load_design(files / "design.json")
    with pytest.raises(us.errors.ConfigurationError, match=r"a device or a pipe.*- is the standard output"):
        apply_file(design, files / "today.csv", device, private="occupancy", target_format="csv")
    assert os.path.lexists(device)


@posix
def test_planted_links_are_not_followed(files, tmp_path, understudy):
    """Names that another user could know beforehand lead to a file of the victim; nothing is written to it."""
    victim = tmp_path / "victim"
    victim.write_text("as it was")
    for name in ("out.csv.partial", "out.csv.meta.json.partial", "out.csv.part", "out.csv.tmp"):
        (tmp_path / name).symlink_to(victim)
    told = understudy("apply", files / "design.json", files / "today.csv", *APPLY, "-o", tmp_path / "out.csv")
    assert told.status == 0
    assert victim.read_text() == "as it was"
    assert not list(tmp_path.glob(".understudy-*.tmp"))


@posix
@pytest.mark.parametrize("planted", ["out.csv", "out.csv.meta.json"])
def test_a_link_of_somebody_else_is_refused(files, tmp_path, monkeypatch, planted):
    """One's own link is followed, as `design.json` may be one; another's leads where they want."""
    victim = tmp_path / "victim"
    victim.write_text("as it was")
    (tmp_path / planted).symlink_to(victim)
    os.lchown(tmp_path / planted, 12345, -1) if os.geteuid() == 0 else monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(us.errors.ConfigurationError, match="somebody else has made"):
        apply_file(
            us.load_design(files / "design.json"), files / "today.csv", tmp_path / "out.csv", private="occupancy"
        )
    assert victim.read_text() == "as it was"


@posix
def test_an_own_link_is_followed_and_stays(files, tmp_path):
    """What it leads to is replaced, in one step."""
    (tmp_path / "real.csv").write_text("older")
    (tmp_path / "out.csv").symlink_to("real.csv")
    design = us.load_design(files / "design.json")
    apply_file(design, files / "today.csv", tmp_path / "out.csv", private="occupancy")
    assert (tmp_path / "out.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("date,co2")


@posix
def test_temporary_names_are_new_each_time_and_exclusive(tmp_path, monkeypatch):
    """Even a name that was guessed is not opened: the file must not exist, and no link is followed."""
    from understudy import _paths as paths

    victim = tmp_path / "victim"
    victim.write_text("as it was")
    monkeypatch.setattr(paths.secrets, "token_hex", lambda _: "guessed")
    (tmp_path / ".understudy-guessed.tmp").symlink_to(victim)
    with pytest.raises(us.errors.StoredFileError, match="what was there is intact"):
        paths.write_whole(tmp_path / "out.json", "{}")
    assert victim.read_text() == "as it was"
    assert (tmp_path / ".understudy-guessed.tmp").is_symlink()  # it is not ours to delete


@pytest.mark.skipif(sys.platform == "win32", reason="permissions as POSIX has them")
def test_permissions(tmp_path):
    """An older file keeps its own; a private one is for its owner, also if it was not before."""
    from understudy._paths import write_whole

    path = tmp_path / "figures.json"
    path.write_text("older")
    path.chmod(0o640)
    write_whole(path, "newer")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    write_whole(path, "secret", private=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
