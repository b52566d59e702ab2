"""Draw docs/overview.svg, the chart of the README, from the tables of the benchmark pages.

``python bench/overview.py`` writes it again after a page has changed; tests compare the two. The
grey of the text is readable on white and on black.
"""

import re
import sys
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parents[1] / "docs"
CHART = DOCS / "overview.svg"

OURS, THEIRS, INK = "#0d9488", "#94a3b8", "#78818c"
WIDTH, PANEL, GAP = 960, 310, 15
HEAD, ROW, LABEL, BAR = 48, 22, 132, 100

Cells = dict[str, dict[str, str]]


class Panel(NamedTuple):
    """Bars of one column of a table of a page; `rows` are their rows by label."""

    title: str
    page: str
    table: str
    unit: str
    column: str
    rows: dict[str, str]


_ARRAYS = {name: name for name in ("bloscpack", "h5py", "zarr")}
_REMOTE = {name: name for name in ("bloscpack", "zarr", "h5py")}
_FRAMES = {
    "bloscpack, lossless": "bloscpack, fast",
    "h5py, lossless": "h5py, Blosc lz4",
    "GulpIO2, JPEG": "GulpIO2",
}
_WEBDATASET = {"webdataset, JPEG": "webdataset, JPEG"}
_SMALL = {
    "bloscpack, lossless": "bloscpack, small",
    "h5py, lossless": "h5py, Blosc zstd",
    "bloscpack, JPEG": "bloscpack, JPEG",
    "GulpIO2, JPEG": "GulpIO2",
}
PANELS = (
    Panel(
        "A random row of a float32 array, µs",
        *("benchmarks-peers.md", "Rows at random", "us"),
        *("random row of 4000 bytes, zstd-3, 1 MiB", _ARRAYS),
    ),
    Panel(
        "A random frame of 320 x 240, µs",
        *("benchmarks-frames.md", "A single frame at random", "us"),
        *("animation, one frame", _FRAMES),
    ),
    Panel(
        "32 frames of a clip: µs a frame",
        *("benchmarks-frames.md", "Clips: many frames with a stride", "us"),
        *("animation, 32 frames", _FRAMES | _WEBDATASET),
    ),
    Panel(
        "Requests to open an array on S3",
        *("benchmarks-remote.md", "Requests, S3", "MB", "open", _REMOTE),
    ),
    Panel(
        "Wrong data, no error: of 500 bit flips",
        *("benchmarks-peers.md", "Bit flips and truncation", "", "wrong, data", _REMOTE),
    ),
    Panel(
        "Size of a frame, kB",
        *("benchmarks-frames.md", "Sizes of the files", "kB", "animation", _SMALL | _WEBDATASET),
    ),
)


def cells(page: str, title: str) -> Cells:
    """Return the cells of the table under a heading, by row and column."""
    text = (DOCS / page).read_text("utf-8")
    section = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [line.strip("|").split(" | ") for line in section.splitlines() if line[:2] == "| "]
    if not lines:
        raise LookupError(f"{page}: no table under {title!r}")
    head, _, *rows = [[cell.strip() for cell in line] for line in lines]
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}


def number(cell: str, unit: str) -> tuple[float, str]:
    """Return the figure of a cell and its label: ``1.2 ms (41.90)`` is 1200 us."""
    match = re.match(r"([\d,.]+)(?: (us|ms)\b)?(?: \(([\d.]+)\))?", cell)
    if match is None:
        raise ValueError(f"{cell!r}: expected a number")
    value = float(match[1].replace(",", ""))
    if unit == "us":
        value *= 1000 if match[2] == "ms" else 1
        return value, f"{value:,.0f}"
    if unit == "kB":
        return value / 1000, f"{value / 1000:.0f}"
    return value, f"{value:.0f} ({match[3]} MB)" if unit == "MB" else f"{value:.0f}"


def _text(x: float, y: float, text: str, style: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{style}>{text}</text>'


def draw(panel: Panel, left: float, top: float) -> list[str]:
    """Return the elements of a panel."""
    table = cells(panel.page, panel.table)
    figures = [number(table[row][panel.column], panel.unit) for row in panel.rows.values()]
    largest = max(value for value, _ in figures)
    elements = [
        _text(left, top + 14, panel.title, ' font-weight="bold"'),
        _text(left, top + 32, panel.page, ' font-size="10.5"'),
    ]
    for index, (name, (value, label)) in enumerate(zip(panel.rows, figures, strict=True)):
        y = top + HEAD + index * ROW
        is_ours = name.startswith("bloscpack")
        width = BAR * value / largest
        weight = ' font-weight="bold"' if is_ours else ""
        elements.append(_text(left + LABEL - 6, y + 11, name, f' text-anchor="end"{weight}'))
        elements.append(
            f'<rect x="{left + LABEL:g}" y="{y:g}" width="{width:.1f}" height="14" rx="2" '
            f'fill="{OURS if is_ours else THEIRS}"/>'
        )
        elements.append(_text(left + LABEL + width + 5, y + 11, label, weight))
    return elements


def chart() -> str:
    """Return the chart, three panels a line."""
    elements, top = [], 6
    for start in range(0, len(PANELS), 3):
        line = PANELS[start : start + 3]
        for index, panel in enumerate(line):
            elements += draw(panel, index * (PANEL + GAP), top)
        top += HEAD + ROW * max(len(panel.rows) for panel in line) + 14
    body = "\n".join(elements)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" '
        f'height="{top}" font-family="system-ui, sans-serif" font-size="13" fill="{INK}">\n'
        f"<title>bloscpack and others: shorter bars are better</title>\n{body}\n</svg>\n"
    )


if __name__ == "__main__":
    CHART.write_text(chart(), "utf-8")
    sys.stdout.write(f"{CHART}\n")
