"""VRS recordings for commands: open one by name, select records by options.

The modules that decode records are imported on use, as most commands do not need them.
"""

import argparse
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ...plugin import (
    ByteSource,
    Console,
    Container,
    add_option,
    errors_at,
    one_input,
    open_input,
    parse_range,
    shown_name,
)

if TYPE_CHECKING:
    from ..recording import Recording
    from ..sequence import RecordSequence

TYPES = "data", "configuration", "state"


class Moment(NamedTuple):
    """Time on the command line: absolute, or relative to the first or the last data record."""

    seconds: float  # absolute time, or distance from the origin, negative before it
    # "": absolute; "+": relative to the first data record; "-": relative to the last one.
    origin: str


@contextmanager
def open_recording(
    name: str,
    nthreads: int | None,
    console: Console | None = None,
    source: ByteSource | None = None,
) -> Iterator["Recording"]:
    """Open a recording, and print its problems to `console` instead of warning about them.

    `source` is its open file, if it was opened.
    """
    from ..recording import open_quietly

    if source is None:
        source = open_input(one_input(name), ("vrs",))[1]
    with errors_at(shown_name(name)):
        recording = open_quietly(source, nthreads=nthreads)
    with recording:
        if console is not None:
            for line in recording.report.lines():
                console.note(f"{shown_name(name)}: {line}")
        yield recording


def add_file(parser: argparse.ArgumentParser) -> None:
    """Add the argument for the recording."""
    parser.add_argument(
        "file_",
        metavar="FILE",
        help="VRS file, the first one of a split recording; - for standard input",
    )


def add_filter_options(parser: Container) -> None:
    """Add the options that filter records; `choose` applies them."""
    add_option(
        parser,
        "--stream ID",
        "select only this stream, like 1201-1, or streams that match a pattern like '1201-*'; "
        "may be repeated",
        action="append",
    )
    add_option(
        parser,
        "--type TYPE",
        f"select only {', '.join(TYPES)}; may be repeated",
        choices=TYPES,
        action="append",
        dest="types",
    )
    add_option(
        parser,
        "--after SECONDS",
        "select from this time on; +S is S seconds after the first data record, -S before the last",
        type=parse_moment,
    )
    add_option(parser, "--before SECONDS", "select until this time", type=parse_moment)


def add_selection(parser: Container) -> None:
    """Add the option that selects a range of records; `choose` applies it."""
    add_option(
        parser,
        "--select RECORDS",
        "a number or a range like 0:100 of these, in order of time (default: all)",
    )


def parse_moment(text: str) -> Moment:
    """Parse the argument of ``--after`` or ``--before``."""
    origin = text[:1] if text[:1] in ("+", "-") else ""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise argparse.ArgumentTypeError(f"must be seconds, like 12.5, +10 or -10, not {text!r}")
    return Moment(seconds, origin)


def times_of(
    recordings: "Sequence[Recording]", args: argparse.Namespace
) -> dict[str, float | None]:
    """Return ``after`` and ``before`` in seconds; several recordings have one common time."""
    return {name: _resolve(recordings, getattr(args, name)) for name in ("after", "before")}


def _resolve(recordings: "Sequence[Recording]", given: Moment | None) -> float | None:
    if given is None:
        return None
    if not given.origin:
        return given.seconds
    ranges = [each.filter(types="data").time_range or each.time_range for each in recordings]
    limits = [limit for each in ranges if each is not None for limit in each]
    origin = (min if given.origin == "+" else max)(limits, default=0.0)
    return origin + given.seconds


def choose(recording: "Recording", args: argparse.Namespace) -> "RecordSequence":
    """Return the records that the options select."""
    records: RecordSequence = recording
    times = times_of([recording], args)
    if args.stream or args.types or times["after"] is not None or times["before"] is not None:
        records = recording.filter(args.stream, args.types, **times)
    text = getattr(args, "select", None)
    return records if text is None else records[parse_range(text, len(records), "records")]
