"""Contenders that keep records of sensors, and the work that each does in its own process.

Members of a task:

work
    One of `READING` or `WRITING`.
path
    The file to read, or to write.
wanted
    A ``.npy`` file of the stored data: rows of `data.MOTION` or frames.
places
    Records to read at random, in this order, again and again.
per_call
    How many of these one call reads.
preset
    Compression of a file that is written.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from race import races
from race.races import exhaust, require
from race.timing import Call, Loop, cycling, loop_of, timed_loop

from vrs.data import FIELD

OURS = "bloscpack"
OURS_ARRAYS = "bloscpack, arrays of 32 frames"
WHEEL = "vrs"
MCAP = "mcap"

PER_ARRAY = 32

TABLE = {
    WHEEL: "vrs.formats:Wheel",
    OURS: "vrs.formats:Ours",
    OURS_ARRAYS: "vrs.formats:OursArrays",
    MCAP: "vrs.formats:Mcap",
}

READING = ("open", "records", "record", "field", "frames", "frame")
WRITING = ("write motion", "write frames")
_NCHECKED = 40

Write = Callable[[Path], object]
"""Writes a new file."""


class Contender(races.Contender):
    """A way to keep records; contenders with the same `files` read the same ones."""

    files = "vrs"

    def open(self, path: Path) -> AbstractContextManager[Any]:
        """Open for reading; the handle has a length and methods as `formats.Ported`."""
        raise NotImplementedError

    def motion_writer(self, rows: np.ndarray, preset: str) -> Write:
        """Return a call that writes a record for each row of `data.MOTION`."""
        raise NotImplementedError

    def frames_writer(self, frames: np.ndarray, preset: str) -> Write:
        """Return a call that writes a record for each frame."""
        raise NotImplementedError


def rows_of(values: np.ndarray) -> list[dict[str, Any]]:
    """Return the records of a structured array as a program has them: numbers and lists."""
    names = values.dtype.names or ()
    columns = [values[name].tolist() for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def prepare(contender: Contender, task: dict[str, Any], stack: ExitStack) -> Loop:
    """Return the loop of a task, after checking its result."""
    # Mapped, so that this process has never had an array of this size.
    wanted = np.load(task["wanted"], mmap_mode="r")
    if task["work"] in READING:
        return loop_of(_reading(contender, task, wanted, stack))
    return _writing(contender, task, wanted)


def _reading(
    contender: Contender, task: dict[str, Any], wanted: np.ndarray, stack: ExitStack
) -> Call:
    path, work, who = Path(task["path"]), task["work"], contender.name

    def count() -> int:
        with contender.open(path) as handle:
            return len(handle)

    if work == "open":
        return races.checked(count, len(wanted).__eq__, who, "the number of records")
    handle = stack.enter_context(contender.open(path))
    places = task["places"]
    first = places[:_NCHECKED]
    if work == "records":
        _require_rows(handle.records(), wanted, who)
        return lambda: exhaust(handle.records())
    if work == "record":
        _require_rows(map(handle.record, first), wanted[first], who)
        return cycling(handle.record, places, task["per_call"])
    if work == "field":  # by a handle that has read it once
        found = handle.field(FIELD)
        require(found.dtype == wanted[FIELD].dtype, who, f"the dtype of {FIELD}")
        require(np.array_equal(found, wanted[FIELD]), who, FIELD)
        return lambda: handle.field(FIELD)
    if work == "frames":
        _require_frames(handle.frames(), wanted, who)
        return lambda: exhaust(handle.frames())
    _require_frames(map(handle.frame, first), wanted[first], who)
    return cycling(handle.frame, places, task["per_call"])


def _writing(contender: Contender, task: dict[str, Any], wanted: np.ndarray) -> Loop:
    path, values = Path(task["path"]), np.array(wanted)
    is_motion = task["work"] == "write motion"
    make = contender.motion_writer if is_motion else contender.frames_writer
    write = make(values, task["preset"])
    write(path)
    with contender.open(path) as handle:
        if is_motion:
            _require_rows(handle.records(), values, contender.name)
        else:
            _require_frames(handle.frames(), values, contender.name)
    return timed_loop(lambda: write(path), path.unlink)


def _require_rows(found: Iterable[dict[str, Any]], wanted: np.ndarray, who: str) -> None:
    values = [dict(row.items()) for row in found]
    require(len(values) == len(wanted), who, "the number of records")
    rows = np.zeros(len(values), wanted.dtype)
    for name in wanted.dtype.names or ():
        rows[name] = [row[name] for row in values]
    require(rows.tobytes() == wanted.tobytes(), who, "the metadata of a record")


def _require_frames(found: Iterable[np.ndarray], wanted: np.ndarray, who: str) -> None:
    count = 0
    for one in found:
        several = one if one.ndim == wanted.ndim else one[None]
        part = wanted[count : count + len(several)]
        require(np.array_equal(several, part), who, f"frame {count} or one after it")
        count += len(several)
    require(count == len(wanted), who, "the number of frames")
