"""Packing with the arguments of bloscpack 0.16: memory, arrays and streams into any sink.

This module checks those arguments and converts them to ours. The functions of `api.py` and the
commands are thin wrappers around it.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from functools import lru_cache
from operator import index
from typing import IO, Any, NamedTuple

from ..array.arraylike import as_array
from ..array.arraymetadata import array_metadata
from ..array.dtype import Dtype
from ..array.layout import cut_runs, is_fortran, typesize_of, with_axes_stored
from ..container.reader import Container
from ..container.writer import Chunking, build_header, features_of, write_container, write_stream
from ..exceptions import ChunkSizeTypeSizeMismatch, NoSuchCodec, NoSuchSerializer
from ..format.checksum import Checksum, checksum_by_name
from ..format.codec import MAX_CHUNK_NBYTES, MAX_TYPESIZE, CodecParams
from ..format.header import MAX_CHUNKS, OFFSET_SIZE, Header
from ..format.metadata import JSON_MAGIC, META_CODECS, pack_section
from ..parallel.threads import map_ordered, resolve_nthreads
from ..storage.file import read_fully
from ..storage.protocol import ByteSink
from ..types import AnyArray, BytesLike, Path, Progress
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

ChunkSize = int | str


def refuse_same_file(in_file: Path, out_file: Path) -> None:
    """Check that writing the output does not destroy the input."""
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
    params: CodecParams | None = None,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Pack the content of a binary stream, which may be a pipe of unknown length, to its end.

    A regular file is read from its current position. The caller commits the sink. Other parameters
    are as for `pack_file_to_file`; `metadata` may be a function of the number of content bytes, and
    `params` replaces `blosc_args`. `progress` is called after each chunk with (bytes done, bytes in
    total or -1 if unknown).
    """

    def section_for(nbytes: int) -> _Section:
        return _section(metadata(nbytes) if callable(metadata) else metadata, metadata_args)

    nbytes = _regular_nbytes(stream)
    packing = _Packing(section_for(nbytes or 0), blosc_args, bloscpack_args)
    if params is not None:
        packing.params = params
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

    def start(done: int) -> tuple[Header, bytes]:
        if callable(metadata):
            packing.section = section_for(done)
        return packing.header(Chunking(*calculate_nchunks(done, size))), packing.section.data

    write_stream(
        sink,
        start,
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

    At most two decoded chunks per thread are in memory at a time.
    """
    container.check_sequential()
    threads = resolve_nthreads(nthreads, container.nbytes)
    done = 0
    for chunk in map_ordered(container.read_chunk, range(container.nchunks), threads):
        sink.write(chunk)
        done += len(chunk)
        if progress is not None:
            progress(done, container.nbytes)
    container.stored.check_end()


class _Section(NamedTuple):
    """Metadata section and its checksum; empty without metadata."""

    data: bytes
    checksum: Checksum | None


class _Packing:
    """Arguments of a pack function, checked and converted to ours."""

    def __init__(
        self,
        section: _Section,
        blosc_args: BloscArgs | None,
        bloscpack_args: BloscpackArgs | None,
        typesize: int | None = None,
    ) -> None:
        blosc = blosc_args or _BLOSC_ARGS
        self.args = bloscpack_args or _BLOSCPACK_ARGS
        self.checksum = checksum_by_name(self.args.checksum)
        self.params = _codec_params(
            blosc.cname, blosc.clevel, blosc.shuffle, blosc.typesize, typesize
        )
        self.section = section

    def header(self, chunking: Chunking) -> Header:
        """Return the header for this division into chunks."""
        spare = resolve_max_app_chunks(self.args, chunking.nchunks)
        if OFFSET_SIZE * (chunking.nchunks + spare) > MAX_CHUNKS:
            raise ValueError(f"max_app_chunks: a table of {spare} entries is larger than any file")
        return build_header(
            chunking,
            checksum=self.checksum,
            typesize=self.params.typesize,
            offsets=bool(self.args.offsets),
            max_app_chunks=spare,
            meta_checksum=self.section.checksum,
            features=features_of(self.params),
        )

    def write(
        self,
        sink: ByteSink,
        chunking: Chunking,
        chunks: Iterable[BytesLike],
        nthreads: int,
        progress: Progress | None = None,
    ) -> None:
        """Write the container to `sink`."""
        write_container(
            sink,
            self.header(chunking),
            self.section.data,
            chunks,
            self.params,
            nthreads=nthreads,
            progress=progress,
        )


_DEFAULT_CHUNK_NBYTES = parse_size(DEFAULT_CHUNK_SIZE)
_BLOSC_ARGS = BloscArgs()
_BLOSCPACK_ARGS = BloscpackArgs()
_METADATA_ARGS = MetadataArgs()


# Cached, for small arrays: this takes 6 us, and the section below 40 us. Typed: 8.0 equals 8, but
# is refused.
@lru_cache(maxsize=256, typed=True)
def _codec_params(
    cname: str, clevel: int, shuffle: bool | int, typesize: int, item_typesize: int | None
) -> CodecParams:
    if item_typesize is None:
        check_range("typesize", typesize, 1, MAX_TYPESIZE)
        item_typesize = typesize
    if shuffle not in (0, 1, 2):
        raise ValueError(f"shuffle must be 0, 1 or 2, not {shuffle!r}")
    return CodecParams(cname, index(clevel), int(shuffle), item_typesize)


@lru_cache(maxsize=256)
def _array_section(dtype: Dtype, shape: tuple[int, ...], is_fortran: bool) -> _Section:
    """Return the metadata section with default arguments, cached by dtype, shape and order."""
    return _section(array_metadata(dtype, shape, is_fortran), _METADATA_ARGS)


def _section(metadata: Any, metadata_args: MetadataArgs | None) -> _Section:
    if metadata is None:
        return _Section(b"", None)
    metadata_args = metadata_args or _METADATA_ARGS
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
    data = pack_section(
        metadata,
        checksum=metadata_args.meta_checksum,
        codec=metadata_args.meta_codec,
        level=metadata_args.meta_level,
        reserve=metadata_args.max_meta_size,
    )
    return _Section(data, checksum_by_name(metadata_args.meta_checksum))


def pack_content(
    content: memoryview,
    sink: ByteSink,
    chunk_size: ChunkSize,
    metadata: Any,
    blosc_args: BloscArgs | None,
    bloscpack_args: BloscpackArgs | None,
    metadata_args: MetadataArgs | None,
) -> None:
    """Pack bytes in memory to `sink`; arguments as for `pack_bytes_to_file`."""
    packing = _Packing(_section(metadata, metadata_args), blosc_args, bloscpack_args)
    chunking = Chunking(*calculate_nchunks(len(content), chunk_size))
    packing.write(sink, chunking, chunking.cut(content), resolve_nthreads(None, len(content)))


def pack_ndarray(
    ndarray: AnyArray,
    sink: ByteSink,
    chunk_size: ChunkSize,
    blosc_args: BloscArgs | None,
    bloscpack_args: BloscpackArgs | None,
    metadata_args: MetadataArgs | None,
) -> None:
    """Pack an array to `sink`; arguments and errors as for `pack_ndarray_to_file`."""
    itemsize = ndarray.dtype.itemsize  # AttributeError for anything but an array, as in 0.16
    ndarray = as_array(ndarray)
    if chunk_size == DEFAULT_CHUNK_SIZE and itemsize:  # not of the caller: fit it to the items
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
    chunks = cut_runs(with_axes_stored(ndarray), chunking.chunk_size)
    packing.write(sink, chunking, chunks, resolve_nthreads(None, ndarray.nbytes))


def _regular_nbytes(stream: IO[bytes]) -> int | None:
    """Return the bytes left in a regular file or seekable object; None for a pipe or device."""
    if not stream.seekable():
        return None
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except OSError:
        mode = stat.S_IFREG  # an object in memory has no descriptor
    return bytes_left(stream) if stat.S_ISREG(mode) else None


def bytes_left(stream: IO[bytes]) -> int:
    """Return the bytes of a seekable file object behind its current position."""
    position = stream.tell()
    nbytes = stream.seek(0, os.SEEK_END) - position
    stream.seek(position)
    return nbytes


def _read_chunks(stream: IO[bytes], chunk_size: int, nchunks: int | None) -> Iterator[bytes]:
    """Yield pieces of `chunk_size` bytes (the last may be shorter); one empty piece if empty."""
    index = 0
    while nchunks is None or index < nchunks:
        data = read_fully(stream, chunk_size)
        if not data and index:
            return
        yield data
        index += 1
        if len(data) < chunk_size:
            return
