"""``blpk tune``: try settings on a sample of an array, and name the best."""

import argparse
import math
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from ..array.layout import AUTO
from ..filetypes.convert import open_array
from .array.trials import (
    PATIENCE,
    Sample,
    Trial,
    best_of,
    fastest_of,
    run_trials,
    smallest_of,
    take_sample,
)
from .console.inputfile import check_input, readable
from .console.options import add_json_option, byte_size
from .console.output import Console, pretty_size, print_json, printable, result
from .console.status import ExitCode

_COLUMNS, _LINES = 61, 12  # of the plot
_MAX_SETTINGS = 47  # characters of settings in a line of the table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the description and the arguments."""
    parser.description = (
        "Save a sample of an array with other codecs, levels, filters and shapes of chunks. Print "
        "the size of each file and how fast one thread writes and reads it, and the call with the "
        f"best settings: the smallest file that is read at least 1/{PATIENCE:g} as fast as the "
        "default one."
    )
    parser.add_argument(
        "file_", metavar="FILE", help="array in a Bloscpack or .npy file, - for standard input"
    )
    parser.add_argument(
        "--sample",
        metavar="SIZE",
        type=byte_size,
        default=16 << 20,
        help="largest decoded size of the sample, in rows or parts of one (default: 16M)",
    )
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Try settings, and print them."""
    console = Console(args)
    check_input(args.file_, "file")
    with open_array(readable(args.file_), nthreads=args.nthreads) as array:
        sample = take_sample(array, args.sample)
    with console.progress(unit="trials") as progress:
        trials = run_trials(sample, progress)
    chosen = {
        "best": best_of(trials),
        "smallest": smallest_of(trials),
        "fastest": fastest_of(trials),
    }
    if args.json:
        print_json("tune", _document(args.file_, sample, trials, chosen))
        return ExitCode.OK
    for line in _report(args.file_, sample, trials, chosen):
        result(printable(line))
    return ExitCode.OK


def _speed(sample: Sample, seconds: float) -> float:
    """Return MB/s; a time that the clock cannot measure counts as a microsecond."""
    return sample.array.nbytes / max(seconds, 1e-6) / 1e6


def _document(
    name: str, sample: Sample, trials: Sequence[Trial], chosen: dict[str, int]
) -> dict[str, Any]:
    return {
        "path": name,
        "dtype": str(sample.array.dtype),
        "shape": sample.shape,
        "sample": {"rows": sample.rows, "axis": sample.axis, "nbytes": sample.array.nbytes},
        "trials": [
            {
                "settings": trial.settings,
                "nbytes": trial.nbytes,
                "write_mb_per_s": round(_speed(sample, trial.write_seconds), 1),
                "read_mb_per_s": round(_speed(sample, trial.read_seconds), 1),
            }
            for trial in trials
        ],
        **chosen,
        "call": _call(trials[chosen["best"]].settings),
        "convert": _command(name, sample, trials[chosen["best"]].settings),
    }


def _report(
    name: str, sample: Sample, trials: Sequence[Trial], chosen: dict[str, int]
) -> Iterator[str]:
    """Yield the lines: the sample, a table by size, a plot, and the calls."""
    nrows = sum(stop - start for start, stop in sample.rows)
    is_cut = sample.axis != (len(sample.shape) - 1 if sample.is_fortran else 0) and sample.shape
    what = f"{nrows} indices of axis {sample.axis}" if is_cut else f"{nrows} rows"
    yield (
        f"{name}: {sample.array.dtype} {sample.shape}; {pretty_size(sample.array.nbytes)} tried: "
        f"{what}, from {', '.join(str(start) for start, _ in sample.rows)} on"
    )
    yield "Sizes are of this sample, speeds of one thread of this machine."
    yield "  size %  write MB/s  read MB/s  settings"
    order = sorted(range(len(trials)), key=lambda index: (trials[index].nbytes, index))
    letters = {index: chr(ord("a") + place) for place, index in enumerate(order)}
    for index in order:
        trial = trials[index]
        yield (
            f"{letters[index]} {100 * trial.nbytes / sample.array.nbytes:6.2f}"
            f"{_speed(sample, trial.write_seconds):12.0f}"
            f"{_speed(sample, trial.read_seconds):11.0f}  {_table_text(trial.settings)}"
        )
    yield from _plot([(trials[index], letters[index]) for index in order], sample)
    for title, index in chosen.items():
        settings = trials[index].settings
        yield f"{title} ({letters[index]}): {_call(settings)}"
        yield f"  {_command(name, sample, settings)}"


def _plot(trials: Sequence[tuple[Trial, str]], sample: Sample) -> Iterator[str]:
    """Yield the lines of a plot: size to the right, speed of reading upwards."""
    sizes = [trial.nbytes / sample.array.nbytes for trial, _ in trials]
    speeds = [math.log(_speed(sample, trial.read_seconds)) for trial, _ in trials]
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


def _arguments(settings: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in settings.items())


def _table_text(settings: dict[str, Any]) -> str:
    """Return settings in a form that fits a line of 80 columns, unless chunks have many axes."""
    text = " ".join(f"{key}={_option_text(value)}" for key, value in settings.items())
    return f"{text[: _MAX_SETTINGS - 3]}..." if len(text) > _MAX_SETTINGS else text or "default"


def _command(name: str, sample: Sample, settings: dict[str, Any]) -> str:
    """Return the command that makes the file of `_call`."""
    if sample.chunks is not None and "chunks" not in settings:
        # Without an option, a copy keeps the chunks of its source.
        settings = settings | {"chunks": AUTO, "access": "rows"}
    words = ["blpk", "convert", shlex.quote(name), "OUT", "--to", "array"]
    for option, value in settings.items():
        words += [f"--{option}", _option_text(value)]
    return " ".join(words)


def _option_text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _call(settings: dict[str, Any]) -> str:
    arguments = _arguments(settings)
    return f"bp.save(path, array{', ' if arguments else ''}{arguments})"
