"""Contenders at datasets of pictures; each works in its own process.

A contender has a method for each of its `works`. It takes a task and a stack, does the work once,
requires that the result is right, and returns the call to be timed. The stack is closed when the
race is over. `cases.Pictures.task` makes the tasks.
"""

from collections.abc import Callable
from contextlib import ExitStack

from race.races import Contender, Task
from race.timing import Call, Loop, loop_of

OURS = "bloscpack"
BARE = "PyAV, on threads"
BYTES = "bytes"
PILLOW = "JPEG, Pillow"

TABLE = {
    OURS: "benzina.readers:Ours",
    BARE: "benzina.with_pyav:Bare",
    PILLOW: "benzina.with_pillow:PillowThreads",
    BYTES: "benzina.readers:Bytes",
}

LOAD, OPEN, SAMPLE, PARSE, PACK = "load", "open", "sample", "parse", "pack"


def prepare(contender: Contender, task: Task, stack: ExitStack) -> Loop:
    """Return the loop of a task, after checking its result."""
    method: Callable[[Task, ExitStack], Call] = getattr(contender, task["work"])
    return loop_of(method(task, stack))
