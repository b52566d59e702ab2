"""The ten functions of bloscpack 0.16 and their deprecated aliases.

Names, arguments, defaults and results are the original's, and so are the bytes written. What it got
wrong is mended: content is counted in bytes whatever the buffer's items are, an output appears
whole or not at all and is never the input, nothing is decoded that was not checked.
"""

import os
import stat
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, wraps
from typing import IO, Any, ParamSpec, TypeVar

from .args import (
    DEFAULT_CHUNK_SIZE,
    BloscArgs,
    BloscpackArgs,
    MetadataArgs,
    calculate_nchunks,
    check_range,
    parse_size,
    resolve_max_app_chunks,
)
from .checksum import checksum_by_name
from .codec import MAX_CHUNK_NBYTES, CodecParams
from .container.format import Header
from .container.metadata import JSON_MAGIC, META_CODECS, pack_section
from .container.reader import Container
from .container.writer import Chunking, Progress, build_header, write_container, write_stream
from .dtype import Dtype
from .exceptions import ChunkSizeTypeSizeMismatch, NoSuchCodec, NoSuchSerializer
from .ndarray import (
    AnyArray,
    array_metadata,
    is_fortran,
    read_array,
    stored_bytes,
    typesize_of,
)
from .storage.file import open_sink, open_source
from .storage.memory import MemorySink, MemorySource, as_bytes
from .storage.protocol import ByteSink
from .threads import map_ordered, resolve_nthreads
from .wire import BytesLike

Filename = str | os.PathLike[str]
ChunkSize = int | str
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
        A JSON value to keep with the content.
    blosc_args, bloscpack_args, metadata_args : optional
        How to store the content and the metadata; the defaults of the classes.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, or both files are the same.
    OSError
        A file cannot be read or written.
    """
    refuse_same_file(in_file, out_file)
    with open(in_file, "rb") as stream, open_sink(out_file) as sink:
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
        `in_file` is damaged or of another kind. No output is left.
    ValueError
        Both files are the same.
    """
    refuse_same_file(in_file, out_file)
    with Container(open_source(in_file)) as container, open_sink(out_file) as sink:
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
    with open_sink(out_file) as sink:
        _pack_content(
            content, sink, chunk_size, metadata, blosc_args, bloscpack_args, metadata_args
        )


def unpack_bytes_from_file(compressed_file: Filename) -> tuple[bytes, Any]:
    """Return (content, metadata) of a Bloscpack file; see `unpack_bytes_from_bytes`."""
    with Container(open_source(compressed_file)) as container:
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
        Any contiguous buffer; all its bytes are packed, whatever its items.
    chunk_size, metadata, blosc_args, bloscpack_args, metadata_args
        As for `pack_file_to_file`.

    Returns
    -------
    bytes
        What `pack_bytes_to_file` would write.
    """
    content = as_bytes(bytes_)
    sink = MemorySink()
    _pack_content(content, sink, chunk_size, metadata, blosc_args, bloscpack_args, metadata_args)
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
    container = Container(MemorySource(bytes_))
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
    with open_sink(filename) as sink:
        _pack_ndarray(ndarray, sink, chunk_size, blosc_args, bloscpack_args, metadata_args)


def unpack_ndarray_from_file(filename: Filename) -> AnyArray:
    """Return the array in a Bloscpack file; see `unpack_ndarray_from_bytes`."""
    with Container(open_source(filename)) as container:
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
        Any dtype but object. The typesize of `blosc_args` is ignored: it is the item size.
    chunk_size : int or str, default "1M"
        Decoded bytes per chunk, a multiple of the item size; the default is made one.
    blosc_args, bloscpack_args, metadata_args
        As for `pack_file_to_file`.

    Returns
    -------
    bytes
        What `pack_ndarray_to_file` would write.

    Raises
    ------
    ObjectNumpyArrayRejection
        The array holds Python objects.
    ChunkSizeTypeSizeMismatch
        `chunk_size` is not a multiple of the item size.
    """
    sink = MemorySink()
    _pack_ndarray(ndarray, sink, chunk_size, blosc_args, bloscpack_args, metadata_args)
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
        New and writable, in the order it was packed.

    Raises
    ------
    NotANumpyArray
        The file holds something else.
    FormatError, CodecError
        The bytes are damaged, or no Bloscpack file.
    """
    return read_array(Container(MemorySource(bytes_)))


def refuse_same_file(in_file: Filename, out_file: Filename) -> None:
    """Check that output does not destroy input.

    Raises
    ------
    ValueError
        Both names are of one regular file.
    """
    if os.path.isfile(out_file) and os.path.exists(in_file) and os.path.samefile(in_file, out_file):
        raise ValueError(f"input and output are the same file: {os.fspath(in_file)!r}")


def pack_stream(
    stream: IO[bytes],
    sink: ByteSink,
    chunk_size: ChunkSize = DEFAULT_CHUNK_SIZE,
    metadata: Any = None,
    blosc_args: BloscArgs | None = None,
    bloscpack_args: BloscpackArgs | None = None,
    metadata_args: MetadataArgs | None = None,
    *,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Pack what a binary stream holds; it may be a pipe of unknown length.

    Parameters
    ----------
    stream : binary file
        Read to its end. A regular file is read from its current position.
    sink : ByteSink
        Takes the container; the caller commits it.
    chunk_size, metadata, blosc_args, bloscpack_args, metadata_args
        As for `pack_file_to_file`.
    nthreads : int, optional
        Threads that compress.
    progress : callable, optional
        Called with (bytes done, bytes in all, -1 if not known) after each chunk.
    """
    packing = _Packing(_section(metadata, metadata_args), blosc_args, bloscpack_args)
    nbytes = _regular_nbytes(stream)
    if nbytes is not None:
        nchunks, size, last = calculate_nchunks(nbytes, chunk_size)
        chunks = _read_chunks(stream, size, nchunks)
        packing.write(
            sink,
            Chunking(nchunks, size, last),
            chunks,
            resolve_nthreads(nthreads, nbytes),
            progress,
        )
        return
    size = parse_size(chunk_size) if isinstance(chunk_size, str) else chunk_size
    check_range("chunk_size", size, 1, MAX_CHUNK_NBYTES)
    write_stream(
        sink,
        lambda done: (packing.header(Chunking(*calculate_nchunks(done, size))), packing.section),
        packing.checksum,
        _read_chunks(stream, size, None),
        packing.params,
        nthreads=resolve_nthreads(nthreads, MAX_CHUNK_NBYTES),
        progress=progress,
    )


def unpack_stream(
    container: Container,
    sink: ByteSink,
    *,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Write the content of `container` to `sink`, which the caller commits.

    At most two decoded chunks a thread are in memory at once.
    """
    threads = resolve_nthreads(nthreads, container.nbytes)
    done = 0
    for chunk in map_ordered(container.read_chunk, range(container.nchunks), threads):
        sink.write(chunk)
        done += len(chunk)
        if progress is not None:
            progress(done, container.nbytes)
    container.check_end()


class _Packing:
    """The arguments of a pack function, checked and turned into ours."""

    def __init__(
        self,
        section: bytes,
        blosc_args: BloscArgs | None,
        bloscpack_args: BloscpackArgs | None,
        typesize: int | None = None,
    ) -> None:
        blosc = _BLOSC_ARGS if blosc_args is None else blosc_args
        self.args = _BLOSCPACK_ARGS if bloscpack_args is None else bloscpack_args
        self.checksum = checksum_by_name(self.args.checksum)
        self.params = _codec_params(
            blosc.cname, blosc.clevel, blosc.shuffle, blosc.typesize, typesize
        )
        self.section = section

    def header(self, chunking: Chunking) -> Header:
        """Return the header for content cut so."""
        return build_header(
            chunking,
            checksum=self.checksum,
            typesize=self.params.typesize,
            offsets=bool(self.args.offsets),
            max_app_chunks=resolve_max_app_chunks(self.args, chunking.nchunks),
            metadata=bool(self.section),
        )

    def write(
        self,
        sink: ByteSink,
        chunking: Chunking,
        chunks: Iterable[BytesLike],
        nthreads: int,
        progress: Progress | None = None,
    ) -> None:
        """Write the container."""
        write_container(
            sink,
            self.header(chunking),
            self.section,
            chunks,
            self.params,
            nthreads=nthreads,
            progress=progress,
        )


_DEFAULT_CHUNK_NBYTES = parse_size(DEFAULT_CHUNK_SIZE)
_BLOSC_ARGS = BloscArgs()
_BLOSCPACK_ARGS = BloscpackArgs()


@lru_cache(maxsize=256)
def _codec_params(
    cname: str, clevel: int, shuffle: bool | int, typesize: int, item_typesize: int | None
) -> CodecParams:
    check_range("typesize", typesize, 1, 255)
    check_range("clevel", clevel, 0, 9)
    return CodecParams(cname, clevel, int(shuffle), item_typesize or typesize)


@lru_cache(maxsize=256)
def _array_section(dtype: Dtype, shape: tuple[int, ...], is_fortran: bool) -> bytes:
    """Return the metadata section with default arguments, remembered for arrays alike."""
    return pack_section(array_metadata(dtype, shape, is_fortran))


def _section(metadata: Any, metadata_args: MetadataArgs | None) -> bytes:
    if metadata is None:
        return b""
    if metadata_args is None:
        return pack_section(metadata)
    if metadata_args.magic_format != JSON_MAGIC:
        raise NoSuchSerializer(
            f"serializer {metadata_args.magic_format!r} does not exist; there is {JSON_MAGIC!r}"
        )
    if metadata_args.meta_codec not in META_CODECS:
        raise NoSuchCodec(
            f"metadata codec {metadata_args.meta_codec!r} does not exist; "
            f"there are {', '.join(META_CODECS)}"
        )
    check_range("meta_level", metadata_args.meta_level, 0, 9)
    return pack_section(
        metadata,
        checksum=metadata_args.meta_checksum,
        codec=metadata_args.meta_codec,
        level=metadata_args.meta_level,
        reserve=metadata_args.max_meta_size,
    )


def _pack_content(
    content: memoryview,
    sink: ByteSink,
    chunk_size: ChunkSize,
    metadata: Any,
    blosc_args: BloscArgs | None,
    bloscpack_args: BloscpackArgs | None,
    metadata_args: MetadataArgs | None,
) -> None:
    packing = _Packing(_section(metadata, metadata_args), blosc_args, bloscpack_args)
    chunking = Chunking(*calculate_nchunks(len(content), chunk_size))
    packing.write(sink, chunking, chunking.cut(content), resolve_nthreads(None, len(content)))


def _pack_ndarray(
    ndarray: AnyArray,
    sink: ByteSink,
    chunk_size: ChunkSize,
    blosc_args: BloscArgs | None,
    bloscpack_args: BloscpackArgs | None,
    metadata_args: MetadataArgs | None,
) -> None:
    itemsize = ndarray.dtype.itemsize
    if chunk_size == DEFAULT_CHUNK_SIZE and itemsize:
        chunk_size = max(itemsize, _DEFAULT_CHUNK_NBYTES // itemsize * itemsize)
    chunking = Chunking(*calculate_nchunks(ndarray.nbytes, chunk_size))
    if chunking.nchunks > 1 and chunking.chunk_size % itemsize:
        raise ChunkSizeTypeSizeMismatch(
            f"chunk_size {chunking.chunk_size} is not a multiple of the item size {itemsize}"
        )
    description = ndarray.dtype, ndarray.shape, is_fortran(ndarray)
    if metadata_args is None:
        section = _array_section(*description)
    else:
        section = _section(array_metadata(*description), metadata_args)
    packing = _Packing(section, blosc_args, bloscpack_args, typesize_of(ndarray.dtype))
    content = stored_bytes(ndarray)
    packing.write(sink, chunking, chunking.cut(content), resolve_nthreads(None, len(content)))


def _regular_nbytes(stream: IO[bytes]) -> int | None:
    """Return what is left of a regular file or a seekable object; None for a pipe or device."""
    if not stream.seekable():
        return None
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except OSError:
        mode = stat.S_IFREG  # an object in memory has no descriptor
    if not stat.S_ISREG(mode):
        return None
    position = stream.tell()
    nbytes = stream.seek(0, os.SEEK_END) - position
    stream.seek(position)
    return nbytes


def _read_chunks(stream: IO[bytes], chunk_size: int, nchunks: int | None) -> Iterator[bytes]:
    """Yield pieces of `chunk_size`, the last shorter; an empty stream gives one empty piece."""
    index = 0
    while nchunks is None or index < nchunks:
        data = _read_full(stream, chunk_size)
        if not data and index:
            return
        yield data
        index += 1
        if len(data) < chunk_size:
            return


def _read_full(stream: IO[bytes], nbytes: int) -> bytes:
    """Read `nbytes`, less only at the end: a pipe gives what it has."""
    data = stream.read(nbytes)
    if len(data) == nbytes or not data:
        return data
    parts = [data]
    missing = nbytes - len(data)
    while missing and (data := stream.read(missing)):
        parts.append(data)
        missing -= len(data)
    return b"".join(parts)


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
