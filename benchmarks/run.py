"""The benchmark suite: `python benchmarks/run.py [--quick] [--only NAME] [--output FILE [--merge]]`.

Prints the tables and writes them as a Markdown page. A full run writes docs/benchmarks-tables.md and its summary,
docs/benchmarks.md; a quick or a partial one writes only where `--output` says, so that it cannot replace the published
figures by accident.
Needs understudy and benchmarks/requirements.txt installed; peers that are missing are named in the table.
Ends with status 1 if any two outputs that should agree do not.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
SECTIONS = (
    "scalar",
    "sensors",
    "matrix",
    "short",
    "step",
    "cold",
    "dense",
    "randomizer",
    "constraints",
    "robust",
    "moving",
    "distortion",
    "laws",
    "models",
    "grid",
    "streams",
    "groups",
    "pipe",
    "fleet",
    "files",
    "gateway",
    "waits",
)
FIGURE = "benchmarks-dense.svg"


def main(arguments: list[str] | None = None) -> int:
    """Run the sections and report; imports wait until the process is pinned."""
    parser = argparse.ArgumentParser(description="Benchmarks of understudy against its peers.")
    parser.add_argument("--quick", action="store_true", help="shorter inputs, fewer rounds")
    parser.add_argument("--only", choices=SECTIONS, action="append", help="run only this table (may be repeated)")
    parser.add_argument("--output", type=Path, help="Markdown page to write (full run: docs/benchmarks-tables.md)")
    parser.add_argument("--merge", action="store_true", help="put the tables into the page that is there (--output)")
    options = parser.parse_args(arguments)

    from benchmarks import machine

    pinning = machine.use_one_core()
    from benchmarks import figure, report

    output = options.output
    if output is None and not (options.quick or options.only):
        output = ROOT / "docs" / "benchmarks-tables.md"
    chosen = [f"--only {name}" for name in options.only or ()] + ["--quick"] * options.quick
    described = machine.describe(" ".join(["python benchmarks/run.py", *chosen]), pinning)
    older = output.read_text(encoding="utf-8") if options.merge and output is not None else None
    sections = []
    for name in options.only or SECTIONS:
        print(f"running {name} ...", file=sys.stderr, flush=True)
        section = import_module(f"benchmarks.sections.{name}").run(options.quick)
        report.show(section)
        sections.append((name, section))
        if output is None:
            continue
        # after each of them: a fault in a later one must not lose those before
        page = report.markdown([s for _, s in sections], described, options.quick)
        if any(name == "dense" and figure.draw(s, output.with_name(FIGURE)) for name, s in sections):
            page += f"\n![Cost of one reading against its number]({FIGURE})\n"
        if older is not None:
            page = report.merged(
                older, page, ", ".join(value for key, value in described if key in ("date", "command", "load"))
            )
        output.write_text(page, encoding="utf-8")
        if output.name == "benchmarks-tables.md":
            output.with_name("benchmarks.md").write_text(report.summary(page), encoding="utf-8")
        print(f"wrote {output}", file=sys.stderr)
    return int(any(row.failure for _, section in sections for row in section.rows))


if __name__ == "__main__":
    sys.exit(main())
