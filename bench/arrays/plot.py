"""Plot of a run, drawn by matplotlib: size against speed of reading."""

import re
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from race.timing import OURS

from arrays.contenders import AUTO
from arrays.figures import Figures


def draw(run: dict[str, Any]) -> Figure:
    """Return the figure: a point for each contender, over the arrays that it stored."""
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "bloscpack", "font.size": 8})
    figure = Figure(figsize=(9, 5.6), layout="constrained")
    axis, figures = figure.subplots(), Figures(run)
    families = [*dict.fromkeys(map(_family, figures.names))]

    def point(name: str, arrays: list[str], label: str, **look: Any) -> None:
        size = float(figures.ratio(figures.sizes, OURS, name, arrays))
        speed = float(figures.speed(figures.reads, name, arrays).replace(",", ""))
        colour = f"C{(families.index(_family(name)) + 3) % 10}"
        axis.scatter(speed, size, edgecolors=colour, **{"facecolors": colour, "s": 24} | look)
        axis.annotate(label, (speed, size), (5, 4), textcoords="offset points")

    for name in figures.names:
        if taken := [one for one in figures.chosen if name in figures.sizes[one]]:
            look = {"marker": "*", "s": 160} if name == AUTO else {}
            point(name, taken, f"{name} ({len(taken)})", **look)
            if len(taken) < len(figures.chosen):  # others than those of the star
                point(AUTO, taken, f"as {name}", marker="*", s=60, facecolors="none")
    axis.set_xscale("log")
    axis.margins(x=0.12)
    axis.grid(alpha=0.3, which="both")
    axis.axhline(1, color="#7f8c8d", linewidth=0.8)
    axis.set_xlabel("MB/s of decoded bytes, one thread, processor time (right is better)")
    axis.set_ylabel("times smaller than by bp.save's default (up is better)")
    axis.set_title(
        "Lossless. In brackets the number of arrays that a contender stored; empty stars are "
        f"{AUTO}\nover the arrays of that contender",
        fontsize=9,
    )
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def _family(name: str) -> str:
    return re.split("[, ]", name)[0]
