"""Tasks for the workers of test_processes.py; imports little, as every worker imports it."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def square(number: int) -> Iterator[int]:
    yield number * number


def repeat(task: tuple[int, int]) -> Iterator[tuple[int, int]]:
    number, count = task
    for part in range(count):
        yield number, part


def large(task: tuple[str, int, int]) -> Iterator[bytes]:
    """Create a file for each part handed out."""
    folder, number, count = task
    for part in range(count):
        yield bytes(1 << 20)
        Path(folder, f"{number}-{part}").touch()


class StrangeError(Exception):
    """Object that can be pickled but not unpickled."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def fail(task: Any) -> Iterator[int]:
    yield 1
    if task == "value":
        raise ValueError("no such value")
    if task == "strange":
        raise StrangeError(1, 2)


def die_once(path: str) -> Iterator[str]:
    """Kill the process during the first attempt."""
    yield "begun"
    if path:
        try:
            Path(path).touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    yield "ended"


def die(name: str) -> Iterator[str]:
    yield "begun"
    os.kill(os.getpid(), getattr(signal, name))


def leave(code: int) -> Iterator[str]:
    yield "begun"
    os._exit(code)


def tell_pid_and_wait(_: int) -> Iterator[int]:
    yield os.getpid()
    while True:
        time.sleep(60)


def take_long(folder: str, number: int) -> int:
    """Create one file when the task begins and another when it has ended."""
    Path(folder, f"begun-{number}").touch()
    if number:
        sum(range(20_000_000))
    Path(folder, f"ended-{number}").touch()
    return number
