"""Text and HTML representations of an array in a file.

Names, dtypes and attrs come from files, so they are truncated and, in HTML, escaped.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from .dtype import Dtype

_MAX_LENGTH = 200  # characters shown of a value


class Facts(NamedTuple):
    """Properties of an array that its representations show."""

    name: str  # the file
    shape: tuple[int, ...]  # shape of the array
    dtype: Dtype  # dtype of the array
    nchunks: int  # number of chunks
    chunks: tuple[int, ...] | None  # shape of a chunk, if it has one


def one_line(facts: Facts, *, is_open: bool) -> str:
    """Return the text of ``repr``."""
    return (
        f"<bloscpack.Array {facts.name!r} shape={facts.shape} dtype={_cut(facts.dtype)} "
        f"chunks={facts.chunks}{'' if is_open else ' (closed)'}>"
    )


def html_table(facts: Facts, nbytes: int, cbytes: int | None, attrs: Mapping[str, Any]) -> str:
    """Return an HTML table; pass `cbytes=None` for a closed file."""
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
    """Return a value as one line of at most `_MAX_LENGTH` characters."""
    line = " ".join(str(value).split())
    return line if len(line) <= _MAX_LENGTH else f"{line[: _MAX_LENGTH - 3]}..."
