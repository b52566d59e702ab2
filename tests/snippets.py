"""Run Python snippets against a library: ours, or a reference library in another process.

A snippet sees the names it is given; its last line, if that is an expression, is its result. The
tests import this module for `run`. The python of an oracle executes it as a script, with the path
of a *subject* as its argument: a file with a function `load` that imports the library and returns
what to greet with and the names for snippets. It then answers snippets from its standard input, one
length-prefixed pickle each. Both ends are ours.

Here is nothing but the standard library: the python of an oracle has none of our packages.
"""

import ast
import os
import pickle
import runpy
import struct
import sys
import warnings
from typing import IO, Any

_LENGTH = struct.Struct("<Q")


def run(names: dict[str, Any], source: str, values: dict[str, Any]) -> tuple[str, Any]:
    """Run a snippet; return ("value", result) or ("error", (names of its classes, message))."""
    statements = ast.parse(source)
    last = ast.parse("None", mode="eval")
    if isinstance(statements.body[-1], ast.Expr):
        last.body = statements.body.pop().value
    seen = {**names, **values}
    try:
        exec(compile(statements, "<snippet>", "exec"), seen)
        return "value", eval(compile(last, "<snippet>", "eval"), seen)
    except (MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as err:  # ChunkingException of bloscpack 0.16 is not an Exception
        return "error", ([kind.__name__ for kind in type(err).__mro__], str(err))


def send(stream: IO[bytes], message: Any) -> None:
    """Write one message."""
    data = pickle.dumps(message, protocol=4)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read one message; raise EOFError if the other end has closed."""
    prefix = stream.read(_LENGTH.size)
    if len(prefix) < _LENGTH.size:
        raise EOFError
    data = stream.read(_LENGTH.unpack(prefix)[0])
    if len(data) < _LENGTH.unpack(prefix)[0]:
        raise EOFError
    return pickle.loads(data)


def main() -> None:
    """Answer requests until the input ends."""
    warnings.simplefilter("ignore")
    # Compiled libraries log to descriptor 1, so answers use another one.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    greeting, names = runpy.run_path(sys.argv[1])["load"]()
    send(answers, greeting)
    while True:
        try:
            source, values = receive(sys.stdin.buffer)
        except EOFError:
            return
        send(answers, run(names, source, values))


if __name__ == "__main__":
    main()
