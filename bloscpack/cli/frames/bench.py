"""``blpk frames bench``: measure a loader on a source of clips, and say what limits it."""

import argparse
from dataclasses import asdict
from functools import partial
from typing import Any

from ...integrations.loaderspeed import LoaderSpeed, Settings, measure
from ...parallel.processes import start_methods
from ...storage.url import shown_name
from ..console.inputfile import check_input, one_input
from ..console.options import STDIO, add_json_option, add_option, ranged
from ..console.output import pretty_size, print_json, result
from ..console.status import ExitCode, UsageError

_MOST = 1 << 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Load random windows of clips as a training program does: by torch's DataLoader, or on "
        "threads if torch is not installed or there are no workers. Print the speed, how much of "
        "the workers' time decoding takes, and what to change."
    )
    parser.add_argument("file_", metavar="PATH", help="any source of clips, by path or URL")
    number = partial(ranged, low=1, high=_MOST)
    add_option(
        parser,
        "-w, --workers N",
        "worker processes; 0: this process (default: %(default)s)",
        type=partial(ranged, low=0, high=_MOST),
        default=2,
    )
    add_option(parser, "--batch N", "items of a batch (default: 8)", type=number, default=8)
    add_option(
        parser,
        "--length N",
        "frames of an item; 0: whole clips (default: 16)",
        type=partial(ranged, low=0, high=_MOST),
        default=16,
    )
    add_option(parser, "--stride N", "distance between frames (default: 1)", type=number, default=1)
    add_option(
        parser,
        "--start-method",
        "how worker processes are started (default: that of Python)",
        choices=sorted(start_methods()),
    )
    add_option(
        parser, "--seconds S", "how long the loader runs (default: 3)", type=_seconds, default=3.0
    )
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Measure a loader."""
    if args.file_ == STDIO:
        raise UsageError("workers open the source by its path; standard input has none")
    check_input(one_input(args.file_), "file")
    settings = Settings(
        args.batch, args.length or None, args.stride, args.workers, args.start_method, args.seconds
    )
    speed = measure(args.file_, settings)
    if args.json:
        print_json("frames bench", _document(args.file_, settings, speed))
    else:
        _print(settings, speed)
    return ExitCode.OK


def _document(name: str, settings: Settings, speed: LoaderSpeed) -> dict[str, Any]:
    return {
        "path": shown_name(name),
        "batch_size": settings.batch_size,
        "length": settings.length,
        "stride": settings.stride,
        "workers": settings.workers,
        **asdict(speed),
    }


def _print(settings: Settings, speed: LoaderSpeed) -> None:
    what = "whole clips" if settings.length is None else f"{settings.length} frames"
    if speed.loader == "torch":
        loader = f"torch, {settings.workers} workers by {speed.method}"
    elif settings.workers > 1:
        loader = f"{settings.workers} threads"
    else:
        loader = "one thread"
    result(f"samples: {what} of {speed.nclips} clips, {settings.batch_size} a batch")
    result(f"loader: {loader}; first batch after {speed.start_seconds:.2f} s")
    result(
        f"speed: {speed.samples_per_second:.0f} samples/s, "
        f"{pretty_size(round(speed.nbytes_per_second))}/s decoded"
    )
    result(
        f"decoding: {speed.decoding_ms:.2f} ms a sample on one thread, "
        f"{speed.decoding_share:.0%} of the workers' time"
    )
    if speed.read_amplification is not None:
        result(f"bytes read / needed: {speed.read_amplification:.2f}")
    for line in speed.hazards:
        result(f"note: {line}")
    for line in speed.advice:
        result(f"advice: {line}")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise argparse.ArgumentTypeError(f"must be a number of seconds up to 3600, not {text!r}")
    return seconds
