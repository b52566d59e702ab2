"""Plot of a run, drawn by matplotlib: size against speed of reading."""

import matplotlib as mpl
from matplotlib.figure import Figure
from race.timing import OURS

from arrays.contenders import AUTO
from arrays.figures import Figures

_COLOURS = {
    "bloscpack": "#c0392b", "blosc2": "#e67e22", "zarr": "#27ae60", "h5py": "#2e86c1",
    "tensorstore": "#808000", "pcodec": "#8e44ad", "Vortex": "#16a085",
}  # fmt: skip


def draw(figures: Figures) -> Figure:
    """Return the figure: a point for each contender, over the arrays that it stored."""
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "bloscpack", "font.size": 8})
    figure = Figure(figsize=(9, 5.6), layout="constrained")
    axis = figure.subplots()
    for name in figures.names:
        taken = [one for one in figures.chosen if name in figures.sizes[one]]
        if not taken:
            continue
        size = float(figures.ratio(figures.sizes, OURS, name, taken))
        speed = float(figures.speed(figures.reads, name, taken).replace(",", ""))
        family = name.partition(",")[0].partition(" ")[0]
        is_ours = name == AUTO
        axis.scatter(speed, size, s=160 if is_ours else 24, marker="*" if is_ours else "o",
                     color=_COLOURS.get(family, "#7f8c8d"), zorder=2)  # fmt: skip
        label = f"{name} ({len(taken)})"
        axis.annotate(label, (speed, size), (5, 4), textcoords="offset points",
                      weight="bold" if is_ours else "normal")  # fmt: skip
    axis.set_xscale("log")
    axis.margins(x=0.12)
    axis.grid(alpha=0.3, which="both")
    axis.axhline(1, color="#7f8c8d", linewidth=0.8)
    axis.set_xlabel("MB/s of decoded bytes, one thread, processor time (right is better)")
    axis.set_ylabel("times smaller than by bp.save's default (up is better)")
    axis.set_title(
        "Lossless; means over the arrays that a contender can store, their number in brackets",
        fontsize=9,
    )
    axis.spines[["top", "right"]].set_visible(False)
    return figure
