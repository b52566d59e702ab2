"""The ten functions of bloscpack 0.16 and their deprecated aliases.

Names, arguments, defaults, results and the bytes written are the original's. Its bugs are fixed:
content is counted in bytes for buffers of any item size, an output appears whole or not at all and
is never the input, and nothing is decoded before it is checked.
"""

import os
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ..array.gather import read_array
from ..container.reader import Container
from ..storage.file import open_source
from ..storage.memory import MemorySink, MemorySource, as_bytes
from ..storage.sink import open_sink
from ..types import AnyArray
from ..types import Path as Filename
from .args import DEFAULT_CHUNK_SIZE, BloscArgs, BloscpackArgs, MetadataArgs
from .pack import (
    ChunkSize,
    pack_content,
    pack_ndarray,
    pack_stream,
    refuse_same_file,
    unpack_stream,
)

Params = ParamSpec("Params")
Result = TypeVar("Result")


def pack_file_to_file(
    in_file: Filename,
    out_file: Filename,
    chunk_size: ChunkSize = DEFAULT_CHUNK_SIZE,
    metadata: Any = None,
    blosc_args: BloscArgs | None = None,
    bloscpack_args: BloscpackArgs | None = None,
    metadata_args: MetadataArgs | None = None,
) -> None:
    """Pack a file to a Bloscpack file.

    Parameters
    ----------
    in_file, out_file : str or PathLike
        The input, which may be a pipe, and the output, which is replaced if it exists.
    chunk_size : int or str, default "1M"
        Decoded bytes per chunk; text with a suffix B, K, M, G or T.
    metadata : object, optional
        A JSON value to store with the content.
    blosc_args, bloscpack_args, metadata_args : optional
        How to store the content and the metadata. Default: the defaults of these classes.

    Raises
    ------
    ValueError, TypeError
        An argument is out of range, or both files are the same.
    OSError
        A file cannot be read or written.
    """
    refuse_same_file(in_file, out_file)
    with open(in_file, "rb") as stream, open_sink(os.fsdecode(out_file), like=in_file) as sink:
        pack_stream(stream, sink, chunk_size, metadata, blosc_args, bloscpack_args, metadata_args)


def unpack_file_from_file(in_file: Filename, out_file: Filename) -> Any:
    """Unpack a Bloscpack file to a file.

    Parameters
    ----------
    in_file, out_file : str or PathLike
        The Bloscpack file, and the output, which is replaced if it exists.

    Returns
    -------
    object
        The metadata, None if there are none.

    Raises
    ------
    FormatError, CodecError
        `in_file` is damaged or of another type. No output file is left.
    ValueError
        Both files are the same.
    """
    refuse_same_file(in_file, out_file)
    with (
        Container.open(open_source(os.fsdecode(in_file))) as container,
        open_sink(os.fsdecode(out_file), like=in_file) as sink,
    ):
        unpack_stream(container, sink)
        return container.metadata


def pack_bytes_to_file(
    bytes_: Any,
    out_file: Filename,
    chunk_size: ChunkSize = DEFAULT_CHUNK_SIZE,
    metadata: Any = None,
    blosc_args: BloscArgs | None = None,
    bloscpack_args: BloscpackArgs | None = None,
    metadata_args: MetadataArgs | None = None,
) -> None:
    """Pack bytes to a Bloscpack file; see `pack_bytes_to_bytes` and `pack_file_to_file`."""
    content = as_bytes(bytes_)
    with open_sink(os.fsdecode(out_file)) as sink:
        pack_content(content, sink, chunk_size, metadata, blosc_args, bloscpack_args, metadata_args)


def unpack_bytes_from_file(compressed_file: Filename) -> tuple[bytes, Any]:
    """Return (content, metadata) of a Bloscpack file; see `unpack_bytes_from_bytes`."""
    with Container.open(open_source(os.fsdecode(compressed_file))) as container:
        return container.read(), container.metadata


def pack_bytes_to_bytes(
    bytes_: Any,
    chunk_size: ChunkSize = DEFAULT_CHUNK_SIZE,
    metadata: Any = None,
    blosc_args: BloscArgs | None = None,
    bloscpack_args: BloscpackArgs | None = None,
    metadata_args: MetadataArgs | None = None,
) -> bytes:
    """Pack bytes to the bytes of a Bloscpack file.

    Parameters
    ----------
    bytes_ : bytes-like
        Any contiguous buffer, of any item size; all its bytes are packed.
    chunk_size, metadata, blosc_args, bloscpack_args, metadata_args
        As for `pack_file_to_file`.

    Returns
    -------
    bytes
        The bytes that `pack_bytes_to_file` would write.
    """
    content = as_bytes(bytes_)
    sink = MemorySink()
    pack_content(content, sink, chunk_size, metadata, blosc_args, bloscpack_args, metadata_args)
    return sink.getvalue()


def unpack_bytes_from_bytes(bytes_: Any) -> tuple[bytes, Any]:
    """Unpack the bytes of a Bloscpack file.

    Parameters
    ----------
    bytes_ : bytes-like
        The file.

    Returns
    -------
    content : bytes
        The content.
    metadata : object
        None if there are none.

    Raises
    ------
    FormatError, CodecError
        The bytes are damaged, or no Bloscpack file.
    """
    container = Container.open(MemorySource(bytes_))
    return container.read(), container.metadata


def pack_ndarray_to_file(
    ndarray: AnyArray,
    filename: Filename,
    chunk_size: ChunkSize = DEFAULT_CHUNK_SIZE,
    blosc_args: BloscArgs | None = None,
    bloscpack_args: BloscpackArgs | None = None,
    metadata_args: MetadataArgs | None = None,
) -> None:
    """Pack an array to a Bloscpack file; see `pack_ndarray_to_bytes`."""
    with open_sink(os.fsdecode(filename)) as sink:
        pack_ndarray(ndarray, sink, chunk_size, blosc_args, bloscpack_args, metadata_args)


def unpack_ndarray_from_file(filename: Filename) -> AnyArray:
    """Return the array in a Bloscpack file; see `unpack_ndarray_from_bytes`."""
    with Container.open(open_source(os.fsdecode(filename))) as container:
        return read_array(container)


def pack_ndarray_to_bytes(
    ndarray: AnyArray,
    chunk_size: ChunkSize = DEFAULT_CHUNK_SIZE,
    blosc_args: BloscArgs | None = None,
    bloscpack_args: BloscpackArgs | None = None,
    metadata_args: MetadataArgs | None = None,
) -> bytes:
    """Pack an array to the bytes of a Bloscpack file.

    Parameters
    ----------
    ndarray : ndarray
        Any dtype except object. The typesize is the item size; that of `blosc_args` is ignored.
    chunk_size : int or str, default "1M"
        Decoded bytes per chunk, a multiple of the item size. The default is rounded to one.
    blosc_args, bloscpack_args, metadata_args
        As for `pack_file_to_file`.

    Returns
    -------
    bytes
        The bytes that `pack_ndarray_to_file` would write.

    Raises
    ------
    ObjectNumpyArrayRejection
        The array contains Python objects.
    ChunkSizeTypeSizeMismatch
        `chunk_size` is not a multiple of the item size.
    """
    sink = MemorySink()
    pack_ndarray(ndarray, sink, chunk_size, blosc_args, bloscpack_args, metadata_args)
    return sink.getvalue()


def unpack_ndarray_from_bytes(bytes_: Any) -> AnyArray:
    """Unpack an array from the bytes of a Bloscpack file.

    Parameters
    ----------
    bytes_ : bytes-like
        The file.

    Returns
    -------
    ndarray
        A new, writable array in the order it was packed.

    Raises
    ------
    NotANumpyArray
        The file holds something else.
    FormatError, CodecError
        The bytes are damaged, or no Bloscpack file.
    """
    return read_array(Container.open(MemorySource(bytes_)))


def _deprecated(function: Callable[Params, Result], name: str) -> Callable[Params, Result]:
    @wraps(function)
    def alias(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        warnings.warn(
            f"bloscpack.{name} is deprecated since 0.16: use bloscpack.{function.__name__}",
            DeprecationWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    alias.__name__ = alias.__qualname__ = name
    alias.__doc__ = f"Deprecated alias of `{function.__name__}`."
    return alias


pack_file = _deprecated(pack_file_to_file, "pack_file")
unpack_file = _deprecated(unpack_file_from_file, "unpack_file")
pack_bytes_file = _deprecated(pack_bytes_to_file, "pack_bytes_file")
unpack_bytes_file = _deprecated(unpack_bytes_from_file, "unpack_bytes_file")
pack_ndarray_file = _deprecated(pack_ndarray_to_file, "pack_ndarray_file")
unpack_ndarray_file = _deprecated(unpack_ndarray_from_file, "unpack_ndarray_file")
pack_ndarray_str = _deprecated(pack_ndarray_to_bytes, "pack_ndarray_str")
unpack_ndarray_str = _deprecated(unpack_ndarray_from_bytes, "unpack_ndarray_str")
