"""An array in a file in words: one line, or a table for notebooks.

Names, dtypes and attrs come from files: they are cut short and, in HTML, escaped.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from .dtype import Dtype

_MAX_LENGTH = 200  # characters of a value that are shown


class Facts(NamedTuple):
    """What is told of an array.

    Attributes
    ----------
    name : str
        The file.
    shape : tuple of int
        Of the array.
    dtype : numpy.dtype
        Of the array.
    nchunks : int
        Number of chunks.
    chunks : tuple of int or None
        Shape of a chunk, if it has one.
    """

    name: str
    shape: tuple[int, ...]
    dtype: Dtype
    nchunks: int
    chunks: tuple[int, ...] | None


def one_line(facts: Facts, *, is_open: bool) -> str:
    """Return what ``repr`` gives."""
    return (
        f"<bloscpack.Array {facts.name!r} shape={facts.shape} dtype={_cut(facts.dtype)} "
        f"chunks={facts.chunks}{'' if is_open else ' (closed)'}>"
    )


def html_table(facts: Facts, nbytes: int, cbytes: int | None, attrs: Mapping[str, Any]) -> str:
    """Return a table; `cbytes` is None for a closed file."""
    from html import escape  # on use: for notebooks only

    chunks = f"{facts.nchunks} of shape {facts.chunks}" if facts.chunks else facts.nchunks
    rows = {
        "file": facts.name,
        "shape": facts.shape,
        "dtype": facts.dtype,
        "chunks": chunks,
        "bytes": nbytes if cbytes is None else f"{nbytes} in {cbytes}",
        "attrs": dict(attrs),
    }
    cells = "".join(
        f"<tr><th>{name}</th><td>{escape(_cut(value))}</td></tr>" for name, value in rows.items()
    )
    return f"<table>{cells}</table>"


def _cut(value: object) -> str:
    """Return a value as one line that is not too long."""
    line = " ".join(str(value).split())
    return line if len(line) <= _MAX_LENGTH else f"{line[: _MAX_LENGTH - 3]}..."
