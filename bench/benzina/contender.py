"""Who takes part: one interface for all, a module for each library.

A contender that is not installed is not an error: `races.assemble` says why it is missing, and the
tables repeat it.
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Protocol

OURS = "bloscpack"
BARE = "PyAV, on threads"
BARE_ONE = "PyAV, threads of its own"
BYTES = "bytes"
TWIN = "plain Python"
PARSER = "pybenzinaparse"
PILLOW = "JPEG, Pillow"
TORCH = "JPEG, Pillow in DataLoader"

# Module and class of each, in the order of the tables.
TABLE = {
    OURS: ("benzina.with_bloscpack", "Ours"),
    BARE: ("benzina.with_pyav", "Bare"),
    BARE_ONE: ("benzina.with_pyav", "BareOne"),
    PILLOW: ("benzina.with_pillow", "PillowThreads"),
    TORCH: ("benzina.with_torch", "TorchWorkers"),
    BYTES: ("benzina.with_bytes", "Bytes"),
    TWIN: ("benzina.with_parsers", "Twin"),
    PARSER: ("benzina.with_parsers", "Parser"),
}

# What can be raced; each is the method of a contender that prepares it.
LOAD, OPEN, TARGETS, SAMPLE, PARSE, PACK = "load", "open", "targets", "sample", "parse", "pack"
WORK = (LOAD, OPEN, TARGETS, SAMPLE, PARSE, PACK)

Call = Callable[[], object]
Task = dict[str, Any]
"""What is to be done; `race.Bench.task` says which members it has."""


class Contender(Protocol):
    """A library, and how it does some of the work.

    It has a method of the name of each of its `works`, that takes a task and a stack, does the work
    once, requires that the result is right, and returns the call to be timed. What it puts on the
    stack is closed when that is over.

    Attributes
    ----------
    name : str
        As in the tables.
    note : str
        How it does the work, for the page.
    works : tuple of str
        Which of `WORK` it does.
    """

    name: str
    note: str
    works: tuple[str, ...]

    def version(self) -> str:
        """Return names and versions of the libraries."""
        ...


def prepare(contender: Contender, task: Task, stack: ExitStack) -> Call:
    """Return the call of a task, after checking what it results in."""
    method: Callable[[Task, ExitStack], Call] = getattr(contender, task["work"])
    return method(task, stack)
