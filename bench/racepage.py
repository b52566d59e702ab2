"""The page and the terminal's view of a run of races: surroundings, targets, tables."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from textwrap import fill
from typing import Any, Self

import report
from harness import ORIGINAL
from races import Case, Races

Lines = list[tuple[str, ...]]
DOCS = Path(__file__).resolve().parents[1] / "docs"


@dataclass(frozen=True, slots=True)
class Table:
    """A title, how to read it, and lines of cells, the head first."""

    title: str
    about: str
    lines: Lines


@dataclass(frozen=True, slots=True)
class Target:
    """A figure that is aimed at, and whether a run met it.

    Attributes
    ----------
    work, target, found : str
        In words.
    met : str
        "yes", "no", or how often of several.
    """

    work: str
    target: str
    found: str
    met: str

    @classmethod
    def judged(cls, work: str, target: str, found: str, is_met: bool) -> Self:
        """Return the target of one figure."""
        return cls(work, target, found, "yes" if is_met else "no")


def cases_of(run: dict[str, Any], start: str = "") -> list[Case]:
    """Return the races of a run whose keys begin so."""
    return [Case(**entry) for entry in run["cases"] if entry["key"].startswith(start)]


def surroundings(
    races: Races, *, libraries: Sequence[str] = (), original: dict[str, str] | str | None = None
) -> dict[str, str]:
    """Return what every page says above the figures, by name.

    Parameters
    ----------
    races : Races
        The run.
    libraries : sequence of str
        Versions beside those of the contenders.
    original : dict or str, optional
        The versions of bloscpack 0.16 and what is below it, or why it did not run; None where it
        has no part.
    """
    about = report.surroundings(original or "")
    if original is None:
        del about[ORIGINAL]
    about = {"date": f"{datetime.now(UTC):%Y-%m-%d}", **about}
    versions = dict.fromkeys(one.version() for one in races.contenders)
    about["contenders"] = "; ".join([*versions, *libraries])
    if races.absent:
        about["not there"] = "; ".join(f"{who}: {why}" for who, why in races.absent.items())
    return about


def items(texts: dict[str, str]) -> str:
    """Return names and what is said of each as a Markdown list."""
    lines = [
        fill(f"- {name}: {text}", 100, subsequent_indent="  ", break_on_hyphens=False)
        for name, text in texts.items()
    ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class RacePage:
    """How the run of a package of races is shown.

    Attributes
    ----------
    prog : str
        The package.
    introduction : callable
        Gives the Markdown above the figures, from the run.
    lists : dict of str to str
        What introduces a list of names and texts, and where in the run that is.
    tables, targets : callable
        Give those of a run.
    remarks : str
        Markdown below the targets.
    """

    prog: str
    introduction: Callable[[dict[str, Any]], str]
    lists: dict[str, str]
    tables: Callable[[dict[str, Any]], list[Table]]
    targets: Callable[[dict[str, Any]], list[Target]]
    remarks: str = ""

    def markdown(self, run: dict[str, Any]) -> str:
        """Return the page of a run."""
        about = {name: text for name, text in run["about"].items() if name != "date"}
        parts = [self.introduction(run), f"Run on {run['about']['date']}:\n", items(about)]
        for introduction, where in self.lists.items():
            parts += [f"{introduction}\n", items(run[where])]
        parts += ["## Targets\n", _markdown(self.target_lines(run)), self.remarks]
        for table in self.tables(run):
            about_table = fill(table.about, 100) + "\n" if table.about else ""
            parts += [f"## {table.title}\n", about_table, _markdown(table.lines)]
        return "\n".join(part for part in parts if part)

    def target_lines(self, run: dict[str, Any]) -> Lines:
        """Return the table of targets, the head first."""
        lines: Lines = [("work", "target", "found", "met")]
        lines += [(one.work, one.target, one.found, one.met) for one in self.targets(run)]
        return lines

    def text(self, run: dict[str, Any]) -> list[str]:
        """Return everything as lines for a terminal, the targets last."""
        lines: list[str] = []
        for table in self.tables(run):
            about = [table.about] if table.about else []
            lines += ["", table.title, *about, *report.text_table(table.lines)]
        lines += ["", *(f"{name}: {about}" for name, about in run["about"].items())]
        found = self.target_lines(run)
        return [*lines, "", "Targets", *report.text_table(found)] if len(found) > 1 else lines

    def main(self, page: Path, argv: Sequence[str] | None = None) -> int:
        """Write the page of the run that the arguments name; return the exit status."""
        prog = self.prog
        parser = argparse.ArgumentParser(prog=f"python -m {prog}.page", description=f"Write {page}")
        parser.add_argument("run", type=Path, help=f"JSON that `python -m {prog} --json` left")
        parser.add_argument("-o", "--output", type=Path, default=page)
        args = parser.parse_args(argv)
        args.output.write_text(self.markdown(json.loads(args.run.read_text("utf-8"))), "utf-8")
        print(f"wrote {args.output}", file=sys.stderr)
        return 0


def _markdown(lines: Lines) -> str:
    return "\n".join(report.markdown_table(lines)) + "\n"
