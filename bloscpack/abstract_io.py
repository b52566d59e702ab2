"""`pack` and `unpack` of bloscpack 0.16, for the sources and sinks of `bloscpack.file_io`."""

from typing import Any

from .args import BloscArgs, BloscpackArgs, MetadataArgs
from .file_io import CompressedFPSink, CompressedFPSource, PlainFPSink, PlainFPSource
from .original.pack import pack_stream, unpack_stream
from .storage.sink import open_sink

__all__ = ["pack", "unpack"]


def pack(
    source: PlainFPSource,
    sink: CompressedFPSink,
    nchunks: int,
    chunk_size: int,
    last_chunk: int,
    metadata: Any = None,
    blosc_args: BloscArgs | None = None,
    bloscpack_args: BloscpackArgs | None = None,
    metadata_args: MetadataArgs | None = None,
) -> None:
    """Pack the bytes of a source.

    Parameters
    ----------
    source : PlainFPSource
        The bytes to pack.
    sink : CompressedFPSink
        Receives the Bloscpack file.
    nchunks, chunk_size, last_chunk : int
        As returned by `bloscpack.args.calculate_nchunks`. Only `chunk_size` is used: the others
        follow from the number of bytes.
    metadata, blosc_args, bloscpack_args, metadata_args
        As for `bloscpack.pack_file_to_file`.

    Raises
    ------
    TypeError
        `source` or `sink` is of another class.
    """
    _check(source, PlainFPSource, "source")
    _check(sink, CompressedFPSink, "sink")
    with open_sink(sink.output_fp) as target:
        pack_stream(
            source.input_fp,
            target,
            # For an empty file, 0.16 passes a chunk size of 0.
            max(chunk_size, 1),
            metadata,
            blosc_args,
            bloscpack_args,
            metadata_args,
        )


def unpack(source: CompressedFPSource, sink: PlainFPSink) -> None:
    """Write the content of a Bloscpack file to a sink.

    Raises
    ------
    TypeError
        `source` or `sink` is of another class.
    FormatError, CodecError
        The file is damaged; nothing is written.
    """
    _check(source, CompressedFPSource, "source")
    _check(sink, PlainFPSink, "sink")
    with open_sink(sink.output_fp) as target:
        unpack_stream(source._container, target)


def _check(given: Any, kind: type[Any], what: str) -> None:
    if not isinstance(given, kind):
        raise TypeError(
            f"{what} must be a bloscpack.file_io.{kind.__name__}, not {type(given).__name__}"
        )
