"""What the house looks like: modules, lines, cycles and untyped parameters, with the limits that `make lint` keeps.

    python tools/house.py             prints the table and fails where a limit is passed
    python tools/house.py --packages  adds a row for each package
    python tools/house.py --list      names the modules behind each count
    python tools/house.py --quick     leaves out the calls that are traced

Lines of code are counted on the syntax tree: no docstrings, comments, blank lines or imports. A call passes a module
if a function of the module runs during it; importing a module is no call. Packages that LATER names are counted apart.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

SOURCE = Path(__file__).resolve().parent.parent / "src"
ROOT = SOURCE / "understudy"
LATER = ("gateway", "studio", "spark", "opcua", "sklearn")
SHORT = 150  # lines: a private module with one importer should be longer, or be part of its importer

SAME_NOUN = {
    "__init__": "every package has one",
    "_kernels": "hot loops, one file a package that has them",
    "autoregressive": "the model, and the candidate that fits it",
    "adaptive": "the model, its transformation, and the candidate that fits it",
    "hidden_markov": "the model, its transformation, and the candidate that fits it",
    "quantised": "the model and its transformation",
    "independent": "the law, and the candidate that fits it",
    "measures": "of distortion, and of leakage",
    "grid": "the grid of a sensor, and the adversary who knows it",
}
"""File names that may occur twice, as the same noun for the same idea, each with its reason."""

ONE_IMPORTER: dict[str, str] = {}
"""Short private modules with one importer that are chapters of their own, each with its reason."""

LIMITS = {
    "modules": (149, 140),
    # 40,733 before real rooms (adaptive models, coins, clocks, rivals, tuning); 45,700 before the first hour (verdicts,
    # possible ranges, the price by channel, times as people write them, bad files, defaults from a file); 46,400 before
    # dataframes and notebooks
    "lines of code": (47_000, 33_000),
    "short private modules with one importer, without a reason": (0, 0),
    "short private modules with one importer": (5, 5),
    "import cycles": (0, 0),
    "file names that occur twice": (0, 0),
    "modules passed by understudy apply": (45, 45),
    "modules passed by understudy fit": (45, 45),
    "modules passed by us.audit": (25, 25),
    "modules passed by us.design": (12, 12),
    "parameters typed Any": (250, 250),
}
"""What fails, and what is aimed at. A limit above its aim is what the tree has reached: it only ever goes down."""


@dataclass(frozen=True)
class Module:
    """A source file: its name, its tree and its lines."""

    name: str
    path: Path
    tree: ast.Module
    lines: list[str]

    @property
    def package(self) -> str:
        """The first part below `understudy`, or the file itself."""
        return self.name.split(".")[1] if "." in self.name else "understudy"


def modules() -> dict[str, Module]:
    """Every module of the package by its dotted name; packages that come later are left out."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if len(parts) > 1 and parts[1] in LATER:
            continue
        text = path.read_text(encoding="utf-8")
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, path, ast.parse(text), text.splitlines())
    return found


def code_lines(module: Module) -> int:
    """Lines that hold code: no docstrings, comments, blank lines or imports."""
    held: set[int] = set()
    left_out: set[int] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import | ast.ImportFrom) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        ):
            left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, ast.stmt):
            block = getattr(node, "body", None)
            last = node.end_lineno if not isinstance(block, list) else max(node.lineno, block[0].lineno - 1)
            held.update(range(node.lineno, (last or node.lineno) + 1))
    text = module.lines
    return sum(1 for n in held - left_out if text[n - 1].strip() and not text[n - 1].lstrip().startswith("#"))


def imports(found: dict[str, Module]) -> dict[str, set[str]]:
    """Which module imports which, inside functions too; `understudy/__init__.py` stands outside."""
    graph: dict[str, set[str]] = {name: set() for name in found}
    for name, module in found.items():
        if name == "understudy":
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "understudy":
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    graph[name].add(whole if whole in found else node.module)
            elif isinstance(node, ast.Import):
                graph[name].update(alias.name for alias in node.names if alias.name in found)
    return {name: {other for other in others if other not in (name, "understudy")} for name, others in graph.items()}


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Sets of nodes that reach each other (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in graph:
        if node not in index:
            visit(node)
    return found


def package_cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Cycles among the packages and files directly below `understudy`."""
    between: dict[str, set[str]] = defaultdict(set)
    for name, others in graph.items():
        for other in others:
            if "." in name and "." in other and name.split(".")[1] != other.split(".")[1]:
                between[name.split(".")[1]].add(other.split(".")[1])
    return cycles(between)


def public_homes(found: dict[str, Module]) -> set[str]:
    """Modules that hold a public name of `us` or of `understudy.report`."""
    homes = set()
    for package in ("understudy", "understudy.report"):
        for node in ast.walk(found[package].tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                homes.add(node.module)
    return homes


def lonely(found: dict[str, Module], graph: dict[str, set[str]]) -> list[str]:
    """Private modules of fewer than SHORT lines with exactly one importer."""
    importers = Counter(other for others in graph.values() for other in others)
    public = public_homes(found)
    return [
        name
        for name, module in found.items()
        if module.path.name != "__init__.py"
        and name not in public
        and importers[name] == 1
        and len(module.lines) < SHORT
    ]


def twice(found: dict[str, Module]) -> list[str]:
    """File names that occur twice and are not the same noun for the same idea."""
    names = Counter(module.path.stem for module in found.values())
    return sorted(name for name, count in names.items() if count > 1 and name not in SAME_NOUN)


def untyped(module: Module) -> int:
    """Parameters whose type is or holds `Any`, those typed `object`, and casts."""
    count = 0
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            own = node.args
            for parameter in (*own.posonlyargs, *own.args, *own.kwonlyargs, own.vararg, own.kwarg):
                if parameter is not None and parameter.annotation is not None:
                    count += bool({"Any", "object"} & _words(parameter.annotation))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            count += node.func.id == "cast"
    return count


def _words(annotation: ast.expr) -> set[str]:
    """The types that a union names; what stands inside of brackets is not looked at, but for Optional."""
    if isinstance(annotation, ast.BinOp):
        return _words(annotation.left) | _words(annotation.right)
    return {annotation.id} if isinstance(annotation, ast.Name) else set()


# Calls that are traced -----------------------------------------------------------------------------


def passed(call: Callable[[], object]) -> set[str]:
    """The modules of which a function runs during a call."""
    names: set[str] = set()
    here = str(ROOT)
    importing = 0  # modules that are being loaded: what runs for that is no call

    def watch(frame: FrameType, event: str, argument: object) -> None:
        nonlocal importing
        code = frame.f_code
        if code.co_name == "<module>":
            importing += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not importing and code.co_filename.startswith(here):
            names.add(code.co_filename)

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return names


@contextlib.contextmanager
def _history() -> Iterator[Path]:
    """A folder with a labelled history of 300 rows, a minute apart."""
    import numpy as np

    import understudy as us

    rng = np.random.default_rng(7)
    rows = ["time,co2,occupied"]
    stays = 50  # rows
    for k in range(300 // stays):
        model = us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * (k % 2), mean0=200.0 * (k % 2), cov0=1.0)
        for j, y in enumerate(us.sample(model, stays, rng=rng)):
            at = k * stays + j
            rows.append(f"2026-03-01T{at // 60:02d}:{at % 60:02d}:00Z,{float(np.ravel(y)[0]):.6f},{k % 2}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "history.csv")
        path.write_text("\n".join(rows) + "\n", encoding="utf-8")
        yield path


def traced() -> dict[str, set[str]]:
    """Modules passed by the four calls of the table."""
    import understudy as us
    from understudy.cli import app

    def room(occupants: float) -> us.GaussMarkov:
        return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * occupants, mean0=100.0, cov0=1.0)

    def command(*words: str) -> Callable[[], object]:
        return lambda: app(list(words), standalone_mode=False)

    def design() -> us.Design:
        family = us.Family(room, values=[0, 1], prior=[0.5, 0.5])
        return us.design(family, pseudo=[0, 0.2, 0.4, 0.6, 0.8, 1], leakage=0.3, horizon=50, distortion="mae")

    found = {}
    silence = io.StringIO()
    with _history() as path, contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
        folder = path.parent
        columns = ("--reading", "co2", "--private", "occupied", "--time", "time")
        family, stored, out = (str(folder / name) for name in ("family.json", "design.json", "out.csv"))
        fit = command("fit", str(path), *columns, "--model", "AR(1), normal", "-o", family)
        found["modules passed by understudy fit"] = passed(fit)
        command("design", family, "--per", "run", "--leakage", "0.3", "--distortion", "mae", "-o", stored)()
        found["modules passed by understudy apply"] = passed(
            command("apply", stored, str(path), "-o", out, "--private", "occupied", "--time", "time", "--accept-misfit")
        )
        found["modules passed by us.design"] = passed(design)
        made = design()
        found["modules passed by us.audit"] = passed(lambda: us.audit(made, n=200, rng=1))
    return found


# The table -----------------------------------------------------------------------------------------


def main() -> int:
    """Print the table; 1 where a limit is passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", action="store_true", help="a row for each package")
    parser.add_argument("--list", action="store_true", help="name the modules behind each count")
    parser.add_argument("--quick", action="store_true", help="leave out the calls that are traced")
    asked = parser.parse_args()
    found = modules()
    graph = imports(found)
    alone = lonely(found, graph)
    circles = cycles(graph) + package_cycles(graph)
    double = twice(found)
    rows: dict[str, tuple[int, list[str]]] = {
        "modules": (len(found), []),
        "lines of code": (sum(map(code_lines, found.values())), []),
        "short private modules with one importer, without a reason": (
            len([name for name in alone if name not in ONE_IMPORTER]),
            [name for name in alone if name not in ONE_IMPORTER],
        ),
        "short private modules with one importer": (len(alone), alone),
        "import cycles": (len(circles), [" ".join(circle) for circle in circles]),
        "file names that occur twice": (len(double), double),
        "parameters typed Any": (sum(map(untyped, found.values())), []),
    }
    if not asked.quick:
        for name, paths in traced().items():
            rows[name] = (len(paths), sorted(str(Path(p).relative_to(ROOT)) for p in paths))
    failed = 0
    print(f"{'':60} {'count':>7} {'limit':>7} {'aim':>7}")
    for name, (limit, aim) in LIMITS.items():
        if name not in rows:
            continue
        count, listed = rows[name]
        failed += count > limit
        verdict = "   <-- too many" if count > limit else "   above its aim" if count > aim else ""
        print(f"{name:60} {count:7,} {limit:7,} {aim:7,}{verdict}")
        if asked.list or (count > limit and len(listed) <= 12):
            print("".join(f"    {item}\n" for item in listed), end="")
    if asked.packages:
        print(f"\n{'package':20} {'modules':>8} {'code':>7} {'Any':>5}")
        by: dict[str, list[Module]] = defaultdict(list)
        for module in found.values():
            by[module.package].append(module)
        for package, parts in sorted(by.items()):
            print(f"{package:20} {len(parts):8} {sum(map(code_lines, parts)):7,} {sum(map(untyped, parts)):5}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
