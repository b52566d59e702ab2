"""Settings of the file of an array, which another file can have too."""

from math import prod
from typing import Any, Literal

from ..container.writer import DEFAULT_CODEC, default_shuffle
from ..format.codec import CODECS
from ..format.rounding import ATTRIBUTE
from .array import Array
from .attrs import plain
from .layout import AUTO, TARGET_CHUNK_NBYTES, Chunks, SaveOptions


class _Default(str):
    """Default of an option: another object than the same text, if a caller gives it."""

    __slots__ = ()


CODEC: Literal["zstd"] = _Default("zstd")  # type: ignore[assignment]
SHUFFLE: Literal["auto"] = _Default("auto")  # type: ignore[assignment]
CHECKSUM = _Default("crc32")
NOT_GIVEN = SaveOptions(codec=CODEC, shuffle=SHUFFLE, checksum=CHECKSUM)
"""Options of a call without any."""


def given(options: SaveOptions) -> dict[str, Any]:
    """Return the options that a caller has given."""
    pairs = zip(options._fields, options, NOT_GIVEN, strict=True)
    return {name: value for name, value, default in pairs if value is not default}


def settled(options: SaveOptions, like: Array | None) -> SaveOptions:
    """Return options, with the settings of `like` in place of those that were not given.

    Raises
    ------
    FormatError, OSError
        The first chunk of `like`, which has some of its settings, cannot be read.
    """
    wanted = given(options)
    if like is None:
        return SaveOptions(**wanted)
    found = _settings_of(like)
    if "chunks" in wanted:
        found = found._replace(access=None)
    if "keepbits" in wanted and found.attrs:
        found = found._replace(attrs={k: v for k, v in found.attrs.items() if k != ATTRIBUTE})
    return found._replace(**wanted)


def _settings_of(array: Array) -> SaveOptions:
    container = array.container
    metadata = container.metadata
    if not isinstance(metadata, dict) or metadata.get("container") != "numpy":
        metadata = {}
    codec, shuffle = array.codec, "auto"
    if container.nchunks and codec != AUTO:
        header = container.fetch(0).header
        if header.shuffle != default_shuffle(header.typesize):
            shuffle = header.shuffle.name.lower()
    return SaveOptions(
        array.chunks if container.grid is not None else _rows_of(array),
        metadata.get("access"),
        codec if codec in (*CODECS, AUTO) else DEFAULT_CODEC,
        None,
        shuffle,
        array.checksum,
        plain(array.attrs) or None,
        metadata.get("keepbits"),
    )


def _rows_of(array: Array) -> Chunks:
    """Return the rows of a chunk; None for the default, if a chunk has only a part of a row."""
    container = array.container
    row: Any = prod(array.shape[:-1] if array.is_fortran else array.shape[1:])
    row *= array.dtype.itemsize
    # A single chunk may be as small as the array, and must not make the chunks of a larger one so.
    is_small = container.nchunks <= 1 and container.chunk_size < TARGET_CHUNK_NBYTES
    if not array.ndim or not row or is_small or container.chunk_size % row:
        return None
    rows: int = container.chunk_size // row
    return rows or None
