"""Packing and unpacking arrays under the names of bloscpack 0.16."""

from typing import Any

from .args import DEFAULT_CHUNK_SIZE, BloscArgs, BloscpackArgs, MetadataArgs
from .array.layout import read_array
from .file_io import CompressedFPSink, CompressedFPSource
from .original import pack
from .original.api import (
    pack_ndarray_file,
    pack_ndarray_str,
    pack_ndarray_to_bytes,
    pack_ndarray_to_file,
    unpack_ndarray_file,
    unpack_ndarray_from_bytes,
    unpack_ndarray_from_file,
    unpack_ndarray_str,
)
from .original.pack import ChunkSize
from .storage.sink import open_sink
from .types import AnyArray

__all__ = [
    "pack_ndarray",
    "pack_ndarray_file",
    "pack_ndarray_str",
    "pack_ndarray_to_bytes",
    "pack_ndarray_to_file",
    "unpack_ndarray",
    "unpack_ndarray_file",
    "unpack_ndarray_from_bytes",
    "unpack_ndarray_from_file",
    "unpack_ndarray_str",
]


def pack_ndarray(
    ndarray: AnyArray,
    sink: CompressedFPSink,
    chunk_size: ChunkSize = DEFAULT_CHUNK_SIZE,
    blosc_args: BloscArgs | None = None,
    bloscpack_args: BloscpackArgs | None = None,
    metadata_args: MetadataArgs | None = None,
) -> None:
    """Pack an array to a sink; see `bloscpack.pack_ndarray_to_file`.

    Raises
    ------
    TypeError
        `sink` is not a `CompressedFPSink`.
    """
    if not isinstance(sink, CompressedFPSink):
        raise _wrong("sink", sink, CompressedFPSink)
    with open_sink(sink.output_fp) as target:
        pack.pack_ndarray(ndarray, target, chunk_size, blosc_args, bloscpack_args, metadata_args)


def unpack_ndarray(source: CompressedFPSource) -> AnyArray:
    """Return the array in a source; see `bloscpack.unpack_ndarray_from_file`.

    Raises
    ------
    TypeError
        `source` is not a `CompressedFPSource`.
    NotANumpyArray
        The file does not hold an array.
    FormatError, CodecError
        The file is damaged.
    """
    if not isinstance(source, CompressedFPSource):
        raise _wrong("source", source, CompressedFPSource)
    return read_array(source._container)


def _wrong(what: str, given: Any, kind: type[Any]) -> TypeError:
    return TypeError(
        f"{what} must be a bloscpack.file_io.{kind.__name__}, not {type(given).__name__}; "
        "bloscpack.save and bloscpack.load take paths and file objects"
    )
