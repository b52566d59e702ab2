"""A contender in its own process: does a kind of work so many times.

`process` starts it with the name of a contender. Members of a task:

work
    One of `contender.READING` or `contender.WRITING`.
path
    The file to read, or to write anew.
wanted
    A ``.npy`` file: what is stored, rows of `data.MOTION` or frames.
places
    The records to read at random, in this order and then again.
per_call
    How many of these each time.
preset
    Compression of what is written.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from harness import Loop, loop_of
from process import serve
from races import assemble, require, timed_loop

from vrs.contender import READING, TABLE, Contender, Handle
from vrs.data import FIELD

Call = Callable[[], object]

_NCHECKED = 40


def main(arguments: list[str]) -> int:
    """Answer until there are no more requests; return the exit status."""
    (contender,), _ = assemble(TABLE, arguments)
    return serve(lambda task, stack: prepare(contender, task, stack))


def prepare(contender: Contender, task: dict[str, Any], stack: ExitStack) -> Loop:
    """Return the loop of a task, after checking what it results in."""
    # Mapped, so that this process has never had an array of this size.
    wanted = np.load(task["wanted"], mmap_mode="r")
    if task["work"] in READING:
        return loop_of(_READING[task["work"]](contender, task, wanted, stack))
    return writing(contender, task, wanted)


def opening(contender: Contender, task: dict[str, Any], wanted: np.ndarray, _: ExitStack) -> Call:
    """Open a file, know how many records it has, and close it."""

    def call() -> int:
        with contender.open(Path(task["path"])) as handle:
            return len(handle)

    require(call() == len(wanted), contender.name, "the number of records")
    return call


def records(
    contender: Contender, task: dict[str, Any], wanted: np.ndarray, stack: ExitStack
) -> Call:
    """Read all records and their metadata."""
    handle = stack.enter_context(contender.open(Path(task["path"])))
    require_rows(handle.records(), wanted, contender.name)
    return lambda: exhaust(handle.records())


def one_record(
    contender: Contender, task: dict[str, Any], wanted: np.ndarray, stack: ExitStack
) -> Call:
    """Read the metadata of records at random."""
    handle = stack.enter_context(contender.open(Path(task["path"])))
    places = task["places"][:_NCHECKED]
    require_rows(map(handle.record, places), wanted[places], contender.name)
    return at_random(handle.record, task)


def field(contender: Contender, task: dict[str, Any], wanted: np.ndarray, stack: ExitStack) -> Call:
    """Make one field of all records an array, by a handle that has read it before."""
    handle: Handle = stack.enter_context(contender.open(Path(task["path"])))
    found = handle.field(FIELD)
    require(found.dtype == wanted[FIELD].dtype, contender.name, f"the dtype of {FIELD}")
    require(np.array_equal(found, wanted[FIELD]), contender.name, FIELD)
    return lambda: handle.field(FIELD)


def frames(
    contender: Contender, task: dict[str, Any], wanted: np.ndarray, stack: ExitStack
) -> Call:
    """Read all frames."""
    handle = stack.enter_context(contender.open(Path(task["path"])))
    require_frames(handle.frames(), wanted, contender.name)
    return lambda: exhaust(handle.frames())


def one_frame(
    contender: Contender, task: dict[str, Any], wanted: np.ndarray, stack: ExitStack
) -> Call:
    """Read frames at random."""
    handle = stack.enter_context(contender.open(Path(task["path"])))
    places = task["places"][:_NCHECKED]
    require_frames(map(handle.frame, places), wanted[places], contender.name)
    return at_random(handle.frame, task)


_READING = {
    "open": opening,
    "records": records,
    "record": one_record,
    "field": field,
    "frames": frames,
    "frame": one_frame,
}


def writing(contender: Contender, task: dict[str, Any], wanted: np.ndarray) -> Loop:
    """Write a new file; the last one is removed before, untimed."""
    path, values = Path(task["path"]), np.array(wanted)
    is_motion = task["work"] == "write motion"
    if is_motion:
        write = contender.motion_writer(values, task["preset"])
    else:
        write = contender.frames_writer(values, task["preset"])
    write(path)
    with contender.open(path) as handle:
        if is_motion:
            require_rows(handle.records(), values, contender.name)
        else:
            require_frames(handle.frames(), values, contender.name)
    return timed_loop(lambda: write(path), path.unlink)


def at_random(read: Callable[[int], object], task: dict[str, Any]) -> Call:
    """Return a call that reads the next few places."""
    forever, per_call = cycle(task["places"]), task["per_call"]

    def call() -> None:
        for _ in range(per_call):
            read(next(forever))

    return call


def exhaust(results: Iterable[object]) -> None:
    """Take all results and keep none."""
    deque(results, 0)


def require_rows(found: Iterable[dict[str, Any]], wanted: np.ndarray, who: str) -> None:
    """Fail the run unless the metadata of records are the rows wanted."""
    values = [dict(row.items()) for row in found]
    require(len(values) == len(wanted), who, "the number of records")
    rows = np.zeros(len(values), wanted.dtype)
    for name in wanted.dtype.names or ():
        rows[name] = [row[name] for row in values]
    require(rows.tobytes() == wanted.tobytes(), who, "the metadata of a record")


def require_frames(found: Iterable[np.ndarray], wanted: np.ndarray, who: str) -> None:
    """Fail the run unless frames, single ones or arrays of several, are those wanted."""
    count = 0
    for one in found:
        several = one if one.ndim == wanted.ndim else one[None]
        part = wanted[count : count + len(several)]
        require(np.array_equal(several, part), who, f"frame {count} or one after it")
        count += len(several)
    require(count == len(wanted), who, "the number of frames")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
