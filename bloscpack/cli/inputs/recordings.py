"""VRS recordings for commands: one from a name, and records of it from options.

What decodes records is imported on use: ``blpk`` starts without it.
"""

import argparse
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...exceptions import BloscpackError, NotBloscpackError
from ...format.filekind import RECORDING_MAGIC as MAGIC
from ...storage.file import open_source
from ...storage.url import shown_name
from ..console.endpoint import STDIO, check_input, readable
from ..console.options import Container
from ..console.output import Console
from ..console.selection import parse_selection_text
from ..console.status import UsageError

if TYPE_CHECKING:
    from ...vrs.recording import Recording
    from ...vrs.sequence import RecordSequence

TYPES = "data", "configuration", "state"


class Moment(NamedTuple):
    """A time on the command line: absolute, or so long after the first or before the last record.

    Attributes
    ----------
    seconds : float
        May be negative if it is relative to the last.
    origin : {"", "+", "-"}
        Nothing, the first data record, the last one.
    """

    seconds: float
    origin: str


def is_recording(name: str) -> bool:
    """Return whether a file, not standard input, begins as VRS recordings do."""
    if name == STDIO or not Path(name).is_file():
        return False
    with Path(name).open("rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


@contextmanager
def open_recording(
    name: str, nthreads: int | None, console: Console | None = None
) -> Iterator["Recording"]:
    """Open a recording and print what was found wrong to a `console`, without a warning as well.

    Raises
    ------
    FileNotFound
        It is not there.
    NotBloscpackError
        It is something else, or empty.
    BloscpackError, OSError
        It cannot be opened.
    """
    from ...vrs.recording import open_quietly

    check_input(name, "file")
    where = readable(name)
    refuse_empty(name, where)
    try:
        recording = open_quietly(where, nthreads=nthreads)
    except BloscpackError as err:
        err.path = shown_name(name)
        raise
    with recording:
        if console is not None:
            for line in recording.report.lines():
                console.note(f"{shown_name(name)}: {line}")
        yield recording


def refuse_empty(name: str, where: Any) -> None:
    """Raise NotBloscpackError for an empty file, as for one of another kind."""
    source = open_source(where)
    try:
        if source.size():
            return
    finally:
        source.close()
    err = NotBloscpackError("not a VRS file: it is empty", offset=0, field="magic")
    err.path = shown_name(name)
    raise err


def add_file(parser: argparse.ArgumentParser) -> None:
    """Add the name of a recording."""
    parser.add_argument(
        "file_", metavar="FILE", help="VRS file, the first if there are several; - for input"
    )


def add_filter_options(parser: Container) -> None:
    """Add options that choose records; `choose` takes them up."""
    parser.add_argument(
        "--stream",
        metavar="ID",
        action="append",
        help="only of this stream, like 1201-1, or of those that fit a pattern like '1201-*'; may "
        "be repeated",
    )
    parser.add_argument(
        "--type",
        metavar="TYPE",
        choices=TYPES,
        action="append",
        dest="types",
        help=f"only {', '.join(TYPES)}; may be repeated",
    )
    parser.add_argument(
        "--after",
        metavar="SECONDS",
        type=moment,
        help="not before this time; +S is S after the first data record, -S before the last",
    )
    parser.add_argument("--before", metavar="SECONDS", type=moment, help="not after this time")


def add_selection(parser: Container) -> None:
    """Add the range of records; `choose` takes it up."""
    parser.add_argument(
        "--select",
        metavar="RECORDS",
        help="of those, a number or a range like 0:100, in the order of time (default: all)",
    )


def moment(text: str) -> Moment:
    """Return the time that an argument means."""
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
    """Return ``after`` and ``before`` in seconds; of several recordings, the time is one."""
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
    """Return the records that the options choose.

    Raises
    ------
    NotFoundError
        There is no such stream.
    UsageError
        The selection is none.
    """
    records: RecordSequence = recording
    times = times_of([recording], args)
    if args.stream or args.types or times["after"] is not None or times["before"] is not None:
        records = recording.filter(args.stream, args.types, **times)
    text = getattr(args, "select", None)
    if text is None:
        return records
    index = parse_selection_text(text)
    if len(index) != 1 or index[0] is ...:
        raise UsageError(f"selection '{text}': records are a number or one range")
    if isinstance(index[0], slice):
        return records[index[0]]
    number = int(index[0])
    if not -len(records) <= number < len(records):
        raise ValueError(f"selection '{text}': there are {len(records)} records")
    return records[number : number + 1 or None]
