"""Run snippets of Python against some bloscpack: this one, or 0.16 in a process of its own.

A snippet sees the bloscpack under test as ``bp``, numpy as ``np``, `describe`, `BytesIO`, `Path`,
and the values passed with it; its last line, if that is an expression, is its result. The tests
import this module for `run`; the python of the oracle executes it as a script, which answers
snippets from its standard input, one length-prefixed pickle each. Both ends are ours.
"""

import ast
import pickle
import struct
import sys
import warnings
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np

import bloscpack
import bloscpack.append

_LENGTH = struct.Struct("<Q")


def describe(array: Any) -> tuple[str, list[int], str, bytes]:
    """Return the dtype, shape, order and C-order bytes of an array: equal if all is equal."""
    dtype = array.dtype
    text = repr(dtype.str) if dtype.names is None else repr(dtype.descr)
    is_fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    return text, list(array.shape), "F" if is_fortran else "C", array.tobytes("C")


def run(bp: Any, source: str, values: dict[str, Any]) -> tuple[str, Any]:
    """Run a snippet; return ("value", result) or ("error", (names of its classes, message))."""
    statements = ast.parse(source)
    last = ast.parse("None", mode="eval")
    if isinstance(statements.body[-1], ast.Expr):
        last.body = statements.body.pop().value
    names = {"bp": bp, "np": np, "describe": describe, "BytesIO": BytesIO, "Path": Path, **values}
    try:
        exec(compile(statements, "<snippet>", "exec"), names)
        return "value", eval(compile(last, "<snippet>", "eval"), names)
    except (MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as err:  # ChunkingException of 0.16 is no Exception
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
    blosc = bloscpack.file_io.blosc
    # The order of blocks within a chunk depends on threads; on one it is canonical.
    blosc.set_nthreads(1)
    answers = sys.stdout.buffer
    sys.stdout = sys.stderr
    send(answers, {"bloscpack": bloscpack.__version__, "codecs": blosc.compressor_list()})
    while True:
        try:
            source, values = receive(sys.stdin.buffer)
        except EOFError:
            return
        send(answers, run(bloscpack, source, values))


if __name__ == "__main__":
    main()
