"""Table and plot of the trials of ``blpk tune``."""

import math
import shlex
import timeit
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any, NamedTuple

from .output import printable

_COLUMNS, _LINES = 61, 12  # of the plot
_MAX_SETTINGS = 47  # characters of settings in a line of the table
# The best settings are the smallest that are read in at most this many times the time of the
# default ones.
PATIENCE = 2.0


@dataclass(frozen=True, slots=True)
class Trial:
    """Result of one trial."""

    settings: dict[str, Any]  # those that are not the defaults
    nbytes: int  # stored size
    # Processor time of one thread; that of reading is the least of several.
    write_seconds: float
    read_seconds: float


class Tuned(NamedTuple):
    """Trials on a sample of a file.

    Attributes
    ----------
    heading : str
        Line about the file and the sample.
    nbytes : int
        Decoded size of the sample.
    trials : sequence of Trial
        The first has the default settings.
    call, command : callable
        Return the Python call, and the command or nothing, with some settings.
    fields : dict
        JSON fields about the file and the sample.
    """

    heading: str
    nbytes: int
    trials: Sequence[Trial]
    call: Callable[[dict[str, Any]], str]
    command: Callable[[dict[str, Any]], str]
    fields: dict[str, Any]

    @property
    def chosen(self) -> dict[str, int]:
        """Indices of the best, the smallest and the fastest trial."""
        seconds = [trial.read_seconds for trial in self.trials]
        quick = [k for k, each in enumerate(seconds) if each <= PATIENCE * seconds[0]]
        return {
            "best": min(quick, key=lambda index: self.trials[index].nbytes),
            "smallest": smallest_of(self.trials),
            "fastest": seconds.index(min(seconds)),
        }

    def speed(self, seconds: float) -> float:
        """Return MB/s; a time that the clock cannot measure counts as a microsecond."""
        return self.nbytes / max(seconds, 1e-6) / 1e6


def trials_document(tuned: Tuned) -> dict[str, Any]:
    """Return the JSON fields of the trials."""
    chosen = tuned.chosen
    best = tuned.trials[chosen["best"]].settings
    return {
        **tuned.fields,
        "trials": [
            {
                "settings": trial.settings,
                "nbytes": trial.nbytes,
                "write_mb_per_s": round(tuned.speed(trial.write_seconds), 1),
                "read_mb_per_s": round(tuned.speed(trial.read_seconds), 1),
            }
            for trial in tuned.trials
        ],
        **chosen,
        "call": tuned.call(best),
        "convert": tuned.command(best) or None,
    }


def trials_text(tuned: Tuned, *, is_for_people: bool = False) -> Iterator[str]:
    """Yield printable lines: the sample, a table by size, a plot, and the calls.

    The table for people is fitted to the terminal.
    """
    trials = tuned.trials
    yield printable(tuned.heading)
    yield "Sizes are of this sample, speeds of one thread of this machine."
    order = sorted(range(len(trials)), key=lambda index: (trials[index].nbytes, index))
    letters = {index: chr(ord("a") + place) for place, index in enumerate(order)}
    rows = [
        (
            letters[index],
            f"{100 * trials[index].nbytes / tuned.nbytes:.2f}",
            f"{tuned.speed(trials[index].write_seconds):.0f}",
            f"{tuned.speed(trials[index].read_seconds):.0f}",
            _settings_text(trials[index].settings),
        )
        for index in order
    ]
    if is_for_people:
        from .table import table_text  # on use: only for terminals

        names = ("", "size %", "write MB/s", "read MB/s", "settings")
        yield from table_text(names, rows, right=names[1:4])
    else:
        yield "  size %  write MB/s  read MB/s  settings"
        for letter, nbytes, write, read, settings in rows:
            yield printable(f"{letter} {nbytes:>6}{write:>12}{read:>11}  {_short(settings)}")
    yield from map(printable, _plot([(trials[index], letters[index]) for index in order], tuned))
    for title, index in tuned.chosen.items():
        chosen = trials[index].settings
        yield printable(f"{title} ({letters[index]}): {tuned.call(chosen)}")
        if command := tuned.command(chosen):
            yield printable(f"  {command}")


def _plot(trials: Sequence[tuple[Trial, str]], tuned: Tuned) -> Iterator[str]:
    """Yield the lines of a plot: size to the right, speed of reading upwards."""
    sizes = [trial.nbytes / tuned.nbytes for trial, _ in trials]
    speeds = [math.log(tuned.speed(trial.read_seconds)) for trial, _ in trials]
    lines = [[" "] * _COLUMNS for _ in range(_LINES)]
    for (_, letter), size, speed in zip(trials, sizes, speeds, strict=True):
        x = _place(size, min(sizes), max(sizes), _COLUMNS)
        y = _place(speed, min(speeds), max(speeds), _LINES)
        line = lines[_LINES - 1 - y]
        while x < _COLUMNS - 1 and line[x] != " ":  # beside one at the same place
            x += 1
        line[x] = letter
    for number, line in enumerate(lines):
        edge = {0: max(speeds), _LINES - 1: min(speeds)}.get(number)
        label = "" if edge is None else f"{math.exp(edge):.0f} MB/s"
        yield f"{label:>12} |{''.join(line).rstrip()}"
    low, high = (f"{100 * edge:.2f} %" for edge in (min(sizes), max(sizes)))
    yield f"{'':12} +{'-' * _COLUMNS}"
    yield f"{'':14}{low}{high:>{_COLUMNS - len(low)}}"


def _place(value: float, low: float, high: float, count: int) -> int:
    """Return the place of a value among `count` between `low` and `high`."""
    return round((value - low) / (high - low) * (count - 1)) if high > low else 0


def _settings_text(settings: dict[str, Any]) -> str:
    return " ".join(f"{key}={option_text(each)}" for key, each in settings.items()) or "default"


def _short(text: str) -> str:
    """Return a text that fits a line of 80 columns."""
    return f"{text[: _MAX_SETTINGS - 3]}..." if len(text) > _MAX_SETTINGS else text


def option_text(value: Any) -> str:
    """Return the value of an option on the command line."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def command_text(*words: str) -> str:
    """Return a command of ``blpk`` for a shell."""
    return shlex.join(("blpk", *words))


def least_seconds(read: Callable[[], object], times: int) -> float:
    """Return the least processor time of several calls."""
    return min(timeit.repeat(read, timer=process_time, number=1, repeat=times))


def smallest_of(trials: Sequence[Trial]) -> int:
    """Return the index of the smallest file, the first of equal ones."""
    return min(range(len(trials)), key=lambda index: trials[index].nbytes)
