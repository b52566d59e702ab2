"""Argument classes of bloscpack 0.16, and its computation of chunk sizes.

Names, defaults and results are those of 0.16. The classes are mappings with attributes. They accept
any value; the functions that use them refuse wrong ones, and never change them.
"""

from collections.abc import Callable, Iterator, MutableMapping
from copy import copy
from pprint import pformat
from typing import Any

from ..exceptions import ChunkingException
from ..format.codec import MAX_CHUNK_NBYTES
from ..format.header import MAX_CHUNKS
from ..format.metadata import DEFAULT_META_CHECKSUM, META_CODECS

__all__ = [
    "BLOSCPACK_ARGS",
    "BLOSC_ARGS",
    "DEFAULT_CHECKSUM",
    "DEFAULT_CHUNK_SIZE",
    "DEFAULT_CLEVEL",
    "DEFAULT_CNAME",
    "DEFAULT_MAGIC_FORMAT",
    "DEFAULT_MAX_APP_CHUNKS",
    "DEFAULT_MAX_META_SIZE",
    "DEFAULT_META_CODEC",
    "DEFAULT_META_LEVEL",
    "DEFAULT_OFFSETS",
    "DEFAULT_SHUFFLE",
    "DEFAULT_TYPESIZE",
    "METADATA_ARGS",
    "SUFFIXES",
    "Args",
    "BloscArgs",
    "BloscpackArgs",
    "MetadataArgs",
    "calculate_nchunks",
    "check_range",
    "parse_size",
    "resolve_max_app_chunks",
]

SUFFIXES = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def _tenfold(n: int) -> int:  # a lambda, as in 0.16, could not be pickled
    return 10 * n


DEFAULT_TYPESIZE = 8
DEFAULT_CLEVEL = 7
DEFAULT_SHUFFLE = True
DEFAULT_CNAME = "blosclz"
DEFAULT_OFFSETS = True
DEFAULT_CHECKSUM = "adler32"
DEFAULT_MAX_APP_CHUNKS = _tenfold
DEFAULT_CHUNK_SIZE = "1M"
DEFAULT_MAGIC_FORMAT = b"JSON"
DEFAULT_META_CODEC = "zlib"
DEFAULT_META_LEVEL = 6
DEFAULT_MAX_META_SIZE = _tenfold

BLOSC_ARGS = ("typesize", "clevel", "shuffle", "cname")
BLOSCPACK_ARGS = ("offsets", "checksum", "max_app_chunks")
METADATA_ARGS = ("magic_format", "meta_checksum", "meta_codec", "meta_level", "max_meta_size")

DEFAULT_BLOSC_ARGS: dict[str, Any] = {
    "typesize": DEFAULT_TYPESIZE,
    "clevel": DEFAULT_CLEVEL,
    "shuffle": DEFAULT_SHUFFLE,
    "cname": DEFAULT_CNAME,
}
DEFAULT_BLOSCPACK_ARGS: dict[str, Any] = {
    "offsets": DEFAULT_OFFSETS,
    "checksum": DEFAULT_CHECKSUM,
    "max_app_chunks": DEFAULT_MAX_APP_CHUNKS,
}
DEFAULT_METADATA_ARGS: dict[str, Any] = {
    "magic_format": DEFAULT_MAGIC_FORMAT,
    "meta_checksum": DEFAULT_META_CHECKSUM,
    "meta_codec": DEFAULT_META_CODEC,
    "meta_level": DEFAULT_META_LEVEL,
    "max_meta_size": DEFAULT_MAX_META_SIZE,
}


class Args(MutableMapping[str, Any]):
    """Mapping with a fixed set of keys, which are also attributes.

    Equals any mapping with the same items. Items cannot be deleted.
    """

    _keys: tuple[str, ...] = ()

    def __getitem__(self, key: str) -> Any:
        self._check_key(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._check_key(key)
        setattr(self, key, value)

    def __delitem__(self, key: str) -> None:
        raise NotImplementedError(f"items of {type(self).__name__} cannot be deleted")

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __repr__(self) -> str:
        items = ", ".join(f"{key}={value!r}" for key, value in self.items())
        return f"{type(self).__name__}({items})"

    def __str__(self) -> str:
        return pformat(dict(self))

    def pformat(self, indent: int = 4) -> str:
        """Return the class name and one indented line for each item."""
        lines = [f"{key}: {value!r}" for key, value in self.items()]
        return ("\n" + " " * indent).join([f"{type(self).__name__}:", *lines])

    def copy(self) -> "Args":
        """Return a shallow copy."""
        return copy(self)

    @property
    def attributes(self) -> list[str]:
        """List of the keys."""
        return list(self._keys)

    @property
    def bytes_attributes(self) -> list[str]:
        """Empty list; in 0.16 the keys that `pformat` shows in bytes."""
        return []

    def _check_key(self, key: str) -> None:
        if key not in self._keys:
            raise KeyError(f"{key} not in {type(self).__name__}")


class BloscArgs(Args):
    """Compression of chunks.

    Parameters
    ----------
    typesize : int, default 8
        Bytes per item, 1 to 255. Ignored for arrays, which use their own.
    clevel : int, default 7
        Compression level, 0 (store) to 9.
    shuffle : bool or int, default True
        False: none; True: byte shuffle; 2: bit shuffle.
    cname : str, default "blosclz"
        The codec.
    """

    _keys = BLOSC_ARGS

    def __init__(
        self,
        typesize: int = DEFAULT_TYPESIZE,
        clevel: int = DEFAULT_CLEVEL,
        shuffle: bool | int = DEFAULT_SHUFFLE,
        cname: str = DEFAULT_CNAME,
    ) -> None:
        self.typesize = typesize
        self.clevel = clevel
        self.shuffle = shuffle
        self.cname = cname


class BloscpackArgs(Args):
    """Layout of the file: offset table and chunk checksums.

    Parameters
    ----------
    offsets : bool, default True
        Whether to write an offset table.
    checksum : str or None, default "adler32"
        The checksum of each chunk.
    max_app_chunks : int or callable of the number of chunks, default ten times that
        Spare entries of the offset table, for chunks appended later.
    """

    _keys = BLOSCPACK_ARGS

    def __init__(
        self,
        offsets: bool = DEFAULT_OFFSETS,
        checksum: str | None = DEFAULT_CHECKSUM,
        max_app_chunks: int | Callable[[int], int] = DEFAULT_MAX_APP_CHUNKS,
    ) -> None:
        self.offsets = offsets
        self.checksum = "None" if checksum is None else checksum  # its name in 0.16
        self.max_app_chunks = max_app_chunks


class MetadataArgs(Args):
    """Encoding of the metadata.

    Parameters
    ----------
    magic_format : bytes, default b"JSON"
        The serializer; JSON is the only one.
    meta_checksum : str, default "adler32"
        The checksum of the metadata.
    meta_codec : str, default "zlib"
        "None" or "zlib".
    meta_level : int, default 6
        0 to 9.
    max_meta_size : int or callable of the metadata's size, default ten times that
        Bytes to reserve.
    """

    _keys = METADATA_ARGS

    def __init__(
        self,
        magic_format: bytes = DEFAULT_MAGIC_FORMAT,
        meta_checksum: str = DEFAULT_META_CHECKSUM,
        meta_codec: str = DEFAULT_META_CODEC,
        meta_level: int = DEFAULT_META_LEVEL,
        max_meta_size: int | Callable[[int], int] = DEFAULT_MAX_META_SIZE,
    ) -> None:
        self.magic_format = magic_format
        self.meta_checksum = meta_checksum
        self.meta_codec = meta_codec
        self.meta_level = meta_level
        self.max_meta_size = max_meta_size

    @property
    def should_compress(self) -> bool:
        """Whether the codec compresses."""
        return self.meta_codec != META_CODECS[0]

    @property
    def meta_codec_name(self) -> str:
        """Name of the codec."""
        return self.meta_codec

    def nullify_codec(self) -> None:
        """Set the codec to "None"."""
        self.meta_codec = META_CODECS[0]

    def effective_max_meta_size(self, meta_size: int) -> int:
        """Return the bytes to reserve for `meta_size` bytes of metadata."""
        reserve = self.max_meta_size
        return reserve(meta_size) if callable(reserve) else reserve


def parse_size(text: str) -> int:
    """Convert text like ``"1M"`` or ``"1.5K"`` to a number of bytes.

    Raises
    ------
    ValueError
        The text has no suffix B, K, M, G or T, or no number before it.
    """
    factor = SUFFIXES.get(text[-1:])
    if factor is None:
        raise ValueError(f"size {text!r} does not end in one of {', '.join(SUFFIXES)}")
    try:
        return int(float(text[:-1]) * factor)
    except (ValueError, OverflowError):
        raise ValueError(f"size {text!r} has no number before its suffix") from None


def check_range(name: str, value: Any, low: int, high: int) -> None:
    """Check that an argument is an int in a range.

    Raises
    ------
    TypeError
        `value` is not an int.
    ValueError
        `value` is not between `low` and `high`.
    """
    if not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}: {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be {low} to {high}, not {value}")


def calculate_nchunks(
    in_file_size: int, chunk_size: int | str = DEFAULT_CHUNK_SIZE
) -> tuple[int, int, int]:
    """Return the division of content of `in_file_size` bytes into chunks.

    Parameters
    ----------
    in_file_size : int
        Size of the content in bytes.
    chunk_size : int or str, default "1M"
        Chunk size in bytes, or text with a suffix B, K, M, G or T; at most `in_file_size` is used.

    Returns
    -------
    nchunks, chunk_size, last_chunk_size : int
        ``(1, 0, 0)`` for empty content.

    Raises
    ------
    ValueError, TypeError
        An argument is out of range.
    ChunkingException
        There would be more than 2^63-1 chunks.
    """
    if in_file_size < 0:
        raise ValueError(f"'in_file_size' must not be negative, as {in_file_size} is")
    if in_file_size == 0:
        return 1, 0, 0
    if isinstance(chunk_size, str):
        chunk_size = parse_size(chunk_size)
    check_range("chunk_size", chunk_size, 1, MAX_CHUNK_NBYTES)
    chunk_size = min(chunk_size, in_file_size)
    nchunks = -(-in_file_size // chunk_size)
    if nchunks > MAX_CHUNKS:
        raise ChunkingException(f"{nchunks} chunks are more than {MAX_CHUNKS}")
    return nchunks, chunk_size, in_file_size - (nchunks - 1) * chunk_size


def resolve_max_app_chunks(args: BloscpackArgs, nchunks: int) -> int:
    """Return the number of spare table entries that `args` request besides `nchunks` used ones.

    Raises
    ------
    TypeError, ValueError
        `max_app_chunks` is neither a number of entries nor a callable that returns one.
    """
    if not args.offsets:
        return 0
    spare = args.max_app_chunks
    if callable(spare):
        spare = spare(nchunks)
        if not isinstance(spare, int) or spare < 0:
            raise ValueError(f"max_app_chunks returned {spare!r}, not a number of entries")
    else:
        check_range("max_app_chunks", spare, 0, MAX_CHUNKS)
    return min(spare, MAX_CHUNKS - nchunks)
