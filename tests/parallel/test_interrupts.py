"""Interrupts at the end of a loop: what a ``with`` or ``finally`` around it promises is kept.

Python 3.12 and 3.13 compile the jump at the end of some loops outside of the block that the loop
is in (python/cpython#130279): those of ``while`` with a condition, and those that end with an
``if``. An interrupt at that jump skips the exits of the block, so that a lock stays locked and
threads stay alive. Such a loop belongs into a function that the block calls.
"""

import dis
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

import bloscpack

PACKAGE = Path(bloscpack.__file__).parent
# Rooms whose blocks hold locks, threads, or new files.
ROOMS = [
    "container",
    "parallel",
    "storage/remote/upload.py",
    "frames/ingest/ingest.py",
    "frames/video",
    "view",
]
# Blocks of which nothing is left if they are skipped.
HARMLESS = {
    "_run",  # the decoder is not given back
    "_wait_for_exit",  # suppresses an error only
    "watch",  # a daemon of its own, which is never interrupted
}


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def unprotected(code: CodeType) -> list[int | None]:
    """Return the lines of jumps into a block that has an exit, from outside of it."""
    entries = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    instructions = {each.offset: each for each in dis.get_instructions(code)}

    def handler(offset: int) -> int | None:
        return next((each.target for each in entries if each.start <= offset < each.end), None)

    found = []
    for each in instructions.values():
        if each.opname == "JUMP_BACKWARD" and handler(each.offset) is None:
            target = handler(each.argval)
            if target is not None and instructions[target].opname == "PUSH_EXC_INFO":
                line = each.positions.lineno if each.positions else None
                if line is not None:
                    found.append(line)
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_loops_are_protected(room: str) -> None:
    place = PACKAGE / room
    found = {
        f"{path.relative_to(PACKAGE)}:{line} {code.co_name}"
        for path in ([place] if place.is_file() else sorted(place.rglob("*.py")))
        for code in codes(compile(path.read_bytes(), str(path), "exec"))
        if code.co_name not in HARMLESS
        for line in unprotected(code)
    }
    assert not found


def test_such_a_loop_is_found() -> None:
    """On the versions that compile it so; others pass with nothing to find."""
    text = "def f(lock, items):\n with lock:\n  while items:\n   items.pop()\n"
    lines = [line for code in codes(compile(text, "f.py", "exec")) for line in unprotected(code)]
    assert lines in ([], [3])
