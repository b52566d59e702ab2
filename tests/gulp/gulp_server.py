"""Run snippets of Python against some gulpio2: ours, or 0.0.4 in a process of its own.

A snippet sees the module under test as ``gulp`` (with ``gulp.fileio``), numpy as ``np`` and the
values passed with it; its last line, if that is an expression, is its result. The tests import this
module for `run`; the python of the oracle executes it as a script, which answers snippets from its
standard input, one length-prefixed pickle each. Both ends are ours.
"""

import ast
import importlib
import pickle
import struct
import sys
import warnings
from typing import IO, Any

import numpy as np

_LENGTH = struct.Struct("<Q")


def run(gulp: Any, source: str, values: dict[str, Any]) -> tuple[str, Any]:
    """Run a snippet; return ("value", result) or ("error", (names of its classes, message))."""
    statements = ast.parse(source)
    last = ast.parse("None", mode="eval")
    if isinstance(statements.body[-1], ast.Expr):
        last.body = statements.body.pop().value
    names = {"gulp": gulp, "np": np, **values}
    try:
        exec(compile(statements, "<snippet>", "exec"), names)
        return "value", eval(compile(last, "<snippet>", "eval"), names)
    except (MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as err:
        return "error", ([kind.__name__ for kind in type(err).__mro__], str(err))


def send(stream: IO[bytes], message: Any) -> None:
    """Write one message."""
    data = pickle.dumps(message, protocol=4)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read one message; EOFError if the other end has gone."""
    prefix = stream.read(_LENGTH.size)
    if len(prefix) < _LENGTH.size:
        raise EOFError
    return pickle.loads(stream.read(_LENGTH.unpack(prefix)[0]))


def main() -> None:
    """Answer until the input ends."""
    warnings.simplefilter("ignore")
    answers = sys.stdout.buffer
    sys.stdout = sys.stderr
    gulp = importlib.import_module("gulpio2")
    send(answers, gulp.__version__)
    while True:
        try:
            source, values = receive(sys.stdin.buffer)
        except EOFError:
            return
        send(answers, run(gulp, source, values))


if __name__ == "__main__":
    main()
