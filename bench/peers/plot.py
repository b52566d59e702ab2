"""Plot of a run, drawn by matplotlib."""

from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from race.page import cases_of
from race.races import Case
from race.timing import BARE, OURS

from peers.data import LZ4, ZSTD, ZSTD_SMALL

# Key of a race, and whether its panel shows the speed as a share of C-Blosc or the time.
PANELS = (
    (f"read/{LZ4}", "share"),
    (f"read/{ZSTD}", "share"),
    (f"write/{LZ4}", "share"),
    (f"write/{ZSTD}", "share"),
    (f"row/{ZSTD}", "time"),
    (f"row/{ZSTD_SMALL}", "time"),
    (f"first/{ZSTD}", "time"),
    ("open", "time"),
)
_OUR_COLOUR, _BARE_COLOUR, _COLOUR = "#c0392b", "#7f8c8d", "#2e86c1"


def draw(run: dict[str, Any]) -> Figure:
    """Return the figure: a panel for each race that was held."""
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "bloscpack", "font.size": 8})
    cases = {case.key: case for case in cases_of(run)}
    panels = [(cases[key], kind) for key, kind in PANELS if key in cases]
    nrows = -(-len(panels) // 2)
    figure = Figure(figsize=(9, 0.4 + 2.6 * nrows), layout="constrained")
    axes = figure.subplots(nrows, 2, squeeze=False).ravel()
    for axis, (case, kind) in zip(axes, panels, strict=False):
        _panel(axis, case, kind)
    for axis in axes[len(panels) :]:
        axis.remove()
    return figure


def _panel(axis: Axes, case: Case, kind: str) -> None:
    medians = {name: seconds for name in case.seconds if (seconds := case.median(name))}
    bare = medians.get(BARE)
    if kind == "share" and bare is not None:
        values = {name: bare / seconds for name, seconds in medians.items() if name != "numpy.save"}
        label, form = "speed, C-Blosc alone = 1 (longer is better)", "{:.2f}"
        axis.axvline(1, color=_BARE_COLOUR, linewidth=0.8)
    else:
        values = {name: 1e6 * seconds for name, seconds in medians.items()}
        label, form = "microseconds, logarithmic (shorter is better)", "{:,.0f}"
        axis.set_xscale("log")
    names = sorted(values, key=values.__getitem__, reverse=kind == "time")
    colours = {OURS: _OUR_COLOUR, BARE: _BARE_COLOUR}
    bars = axis.barh(
        names,
        [values[name] for name in names],
        color=[colours.get(name, _COLOUR) for name in names],
    )
    axis.bar_label(bars, [form.format(values[name]) for name in names], padding=2)
    axis.margins(x=0.15)
    axis.set_title(case.title, fontsize=9)
    axis.set_xlabel(label)
    axis.spines[["top", "right"]].set_visible(False)
