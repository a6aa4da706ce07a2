"""Fresh chance in the scores, on the page: what it hides of a wrong model, and what it costs."""

from __future__ import annotations

from studies.real_data.tables import (
    TESTS,
    Record,
    at,
    gain_of,
    interval,
    nats,
    percent,
    strongest,
    table,
    two_of,
    value,
)

_HEAD = [
    "family",
    "share",
    "nats a day",
    "file",
    "% of mean",
    "best adversary, no clock",
    "white noise",
    "slow noise",
    "gain over the clock",
]


def summary(record: Record) -> str:
    """The short answer, of half a share at zero budget on test."""
    point = next((p for p in record.get("fresh", ()) if (p["share"], p["asked"]) == (0.5, 0.0)), None)
    if point is None:
        return ""
    noise = {how: two_of(point.get("noise", {}).get(how, {}).get("test")) for how in ("white", "slow")}
    return (
        "**Fresh chance in the scores** (`fresh=` of a design) hides some of what the wrong model gives away: "
        f"with half a share the best adversary on the test file has {two_of(point['rows']['test'])} at zero budget, at "
        f"{percent(point, 'test'):.0f} percent (white noise of that size {noise['white']}, slow noise {noise['slow']})."
    )


def fresh(rooms: dict[str, Record]) -> str:
    """The section; nothing if nobody tried."""
    tried = {name: record for name, record in rooms.items() if record.get("fresh")}
    if not tried:
        return ""
    rows = [row for name, record in tried.items() for row in _rows(name, record)]
    return f"""
### What fresh chance in the scores would hide

What leaks at zero budget is in the scores: they are not the independent normals that the theorem wants. If each score
z is replaced by sqrt(1 - s^2) z + s w, w a fresh standard normal, then nothing changes for a right model: the output
has the law of the pseudo value as before. For a wrong one, what the scores still know is drowned. At s = 1 the
readings do not enter at all: the output is drawn from the model of the pseudo value, and **the budget holds whatever
the truth is**, for theta reaches the output through the pseudo value alone. The price is distortion, and an output
that follows the readings less and less. The package does not do this; it is tried here because of the figures above.

{table(_HEAD, rows, left=4)}

{_read(tried)}
"""


def _rows(name: str, record: Record) -> list[list[str]]:
    found = []
    for share, point in _points(record):
        for test in TESTS:
            noise = point.get("noise", {})
            found.append(
                [
                    name,
                    f"{share:g}",
                    nats(point["asked"]),
                    test,
                    f"{percent(point, test):.1f}",
                    strongest(point["rows"][test]),
                    *(two_of(noise.get(how, {}).get(test)) for how in ("white", "slow")),
                    interval(gain_of(point["rows"][test])),
                ]
            )
    return found


def _points(record: Record) -> list[tuple[float, Record]]:
    """All points by budget and share, those without fresh chance first."""
    budgets = sorted({point["asked"] for point in record["fresh"]})
    bare = [(0.0, point) for asked in budgets if (point := at(record, asked)) is not None]
    mixed = [(point["share"], point) for point in record["fresh"]]
    return sorted(bare + mixed, key=lambda pair: (pair[1]["asked"], pair[0]))


def _read(tried: dict[str, Record]) -> str:
    """What the table says, at zero budget on both files and beside noise."""
    words = []
    for name, record in tried.items():
        points = {share: point for share, point in _points(record) if point["asked"] == 0.0}
        if not {0.0, 0.5} <= set(points):
            continue
        told = [
            f"from {value(points[0.0]['rows'][test]):.2f} to {value(points[0.5]['rows'][test]):.2f} on {test}, where "
            f"the distortion goes from {percent(points[0.0], test):.0f} to {percent(points[0.5], test):.0f} percent"
            for test in TESTS
        ]
        words.append(
            f"With {name} at zero budget half a share (s = 0.5) takes the best adversary {', and '.join(told)}."
        )
    for how in ("white", "slow"):
        pairs = [
            (value(point["rows"][test]), value(point["noise"][how].get(test)))
            for record in tried.values()
            for share, point in _points(record)
            if share > 0.0 and point.get("noise")
            for test in TESTS
        ]
        below = sum(a < b for a, b in pairs if a is not None and b is not None)
        words.append(
            f"It leaves the adversary less than {how} noise of equal distortion in {below} of {len(pairs)} cases."
        )
    return f"Read: {' '.join(words)}"
