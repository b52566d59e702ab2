"""Sources and sinks over file objects, as in bloscpack 0.16, and the functions that take them.

None of them closes a file object. `bloscpack.file_io`, `abstract_io` and `numpy_io` have their
public names.
"""

from typing import IO, Any

from ..array.gather import read_array
from ..container.reader import Container
from ..format.header import Header
from ..storage.file import FileObjectSource
from ..storage.memory import MemorySource
from ..storage.sink import open_sink
from ..types import AnyArray
from . import pack as packing
from .args import DEFAULT_CHUNK_SIZE, BloscArgs, BloscpackArgs, MetadataArgs

_ADVICE = "; bloscpack.save and bloscpack.load take paths and file objects"


class CompressedFPSource:
    """Bloscpack file in a binary file object, read from its current position.

    Parameters
    ----------
    input_fp : binary file
        A pipe, or a file object whose position is not 0, is read to its end at once.

    Raises
    ------
    FormatError, UnsupportedError
        The front of the file is damaged, or the file is of another type.
    """

    def __init__(self, input_fp: IO[bytes]) -> None:
        self.input_fp = input_fp
        is_whole = input_fp.seekable() and input_fp.tell() == 0
        source = FileObjectSource(input_fp) if is_whole else MemorySource(input_fp.read())
        self._container = Container.open(source)

    @property
    def bloscpack_header(self) -> Header:
        """Header of the file."""
        return self._container.header

    @property
    def metadata(self) -> Any:
        """Metadata of the file, or None."""
        return self._container.metadata

    @property
    def nchunks(self) -> int:
        """Number of chunks."""
        return self._container.nchunks


class CompressedFPSink:
    """Binary file object that receives a Bloscpack file, written all at once at the end."""

    def __init__(self, output_fp: IO[bytes]) -> None:
        self.output_fp = output_fp


class PlainFPSource:
    """Binary file object whose bytes are packed, from its current position on."""

    def __init__(self, input_fp: IO[bytes]) -> None:
        self.input_fp = input_fp


class PlainFPSink:
    """Binary file object that receives unpacked bytes, written all at once at the end.

    `nchunks` is ignored: the source determines it, as in 0.16.
    """

    def __init__(self, output_fp: IO[bytes], nchunks: int | None = None) -> None:
        self.output_fp = output_fp
        self.nchunks = nchunks


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
        packing.pack_stream(
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
        packing.unpack_stream(source._container, target)


def pack_ndarray(
    ndarray: AnyArray,
    sink: CompressedFPSink,
    chunk_size: packing.ChunkSize = DEFAULT_CHUNK_SIZE,
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
    _check(sink, CompressedFPSink, "sink", _ADVICE)
    with open_sink(sink.output_fp) as target:
        packing.pack_ndarray(ndarray, target, chunk_size, blosc_args, bloscpack_args, metadata_args)


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
    _check(source, CompressedFPSource, "source", _ADVICE)
    return read_array(source._container)


def _check(given: Any, kind: type[Any], what: str, advice: str = "") -> None:
    if not isinstance(given, kind):
        raise TypeError(
            f"{what} must be a bloscpack.file_io.{kind.__name__}, not "
            f"{type(given).__name__}{advice}"
        )
