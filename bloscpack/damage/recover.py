"""Recovery of the whole chunks of a damaged or truncated file into a new one.

Chunks are copied in their stored form. Chunks missing between them become zeros, so that indices do
not change; chunks missing at the end are cut off.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from math import prod
from typing import IO, TYPE_CHECKING, Any

from xxhash import xxh3_64_digest

from ..array.arraymetadata import Description, statistics_type, unpack_array_metadata
from ..container.defaults import spare_entries
from ..container.foundfront import FoundFront, find_front, find_recorded_front
from ..container.logreader import commits_of
from ..container.salvage import FoundChunk, Salvage
from ..container.salvagelog import find_log
from ..container.writer import Chunking, build_header, write_unused
from ..exceptions import BloscpackError, FileChangedError, FormatError
from ..format.codec import CODECS, CodecParams, decode, encode
from ..format.header import (
    ARRAY_FEATURES,
    FEATURE_LOG,
    MAX_CHUNKS,
    MAX_HEADER_SIZE,
    OFFSET_SIZE,
    UNKNOWN,
    Header,
    pack_offsets,
)
from ..format.metadata import pack_section
from ..format.trailer import pack_trailer
from ..storage.file import open_stable_source
from ..storage.protocol import ByteSink, ByteSource, errors_at
from ..storage.sink import open_sink
from ..storage.url import is_url
from ..types import Path, Progress
from .report import Damage, Report, region_of

if TYPE_CHECKING:
    from ..format.statistics import Statistics

# Key in attrs under which a new file lists its missing rows.
ATTRS_KEY = "bloscpack_recovered"


def recover(
    src: Any,
    dst: Path | IO[bytes],
    *,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Write a new file with the whole chunks of an array or of bytes."""
    if same_file(src, dst):
        raise ValueError(f"source and target are the same file: {os.fspath(src)!r}")
    source = open_stable_source(src)
    with closing(source), errors_at(source.name, whole=""):
        salvage: Salvage
        if _is_log(source):
            front, salvage = find_log(source)
            recorded = None
        else:
            front = find_front(source)
            salvage = Salvage(source, front, nthreads=nthreads)
            recorded = find_recorded_front(source, front)
        if recorded is not None and not salvage.is_complete:
            other = Salvage(source, recorded, nthreads=nthreads)
            if other.is_complete:
                front, salvage = recorded, other
        # A writer may have moved or rewritten what is missing: then it is not damaged.
        if not salvage.is_complete and source.is_changed():
            raise FileChangedError(
                "the file was changed while it was searched; nothing was written"
            )
        if not salvage.chunks and salvage.nchunks != 0:
            raise FormatError("no whole chunk was found: nothing can be saved")
        plan = _Plan(front, salvage)
        report = _report(source, front, salvage, plan)
        section = plan.section()
        with open_sink(dst) as sink:
            _write(sink, source, front, section, plan, progress)
    return report


def _is_log(source: ByteSource) -> bool:
    """Return whether a file is a log by its header or, if that is damaged, its commits."""
    if source.node is not None:
        return True
    head = source.read_at(0, MAX_HEADER_SIZE)
    try:
        header = Header.unpack(head, known_features=ARRAY_FEATURES | FEATURE_LOG)
    except BloscpackError:
        return bool(commits_of(source).commits)
    return bool(header.features & FEATURE_LOG)


def same_file(src: Any, dst: Any) -> bool:
    """Return whether the two arguments of `recover` are the same file."""
    if not all(isinstance(one, str | os.PathLike) for one in (src, dst)):
        return src is dst
    if is_url(src) or is_url(dst):
        return bool(src == dst)
    return os.path.exists(dst) and os.path.samefile(src, dst)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A chunk of the new file: a copied chunk, or new bytes.

    `data` is empty for a copy.
    """

    nbytes: int
    cbytes: int
    digest: bytes
    offset: int = 0
    data: bytes = field(default=b"", repr=False)


class _Plan:
    """Content of the new file.

    `gaps` are the ranges of missing chunks before the last whole one, start and stop.
    """

    def __init__(self, front: FoundFront, salvage: Salvage) -> None:
        self._front = front
        self._salvage = salvage
        self._zeros: dict[int, _Piece] = {}
        chunks = salvage.chunks
        count = max(chunks, default=-1) + 1
        step = salvage.chunk_size
        self.found = (count - 1) * step + chunks[count - 1].nbytes if count else 0
        # The grid ends with the row of the last whole chunk; what is missing of it becomes zeros.
        self.grid = salvage.grid
        if salvage.grid is not None:
            nrows = max(salvage.grid.box(max(count - 1, 0))[0].stop, 0)
            self.grid = salvage.grid.with_rows(nrows)
            self.found, count = self.grid.nbytes, self.grid.nchunks
        self.count = count
        self.gaps = list(_iter_gaps(chunks, count))
        self.new_nbytes = self.found
        self._array: Description | None = None
        with suppress(BloscpackError):  # without a readable layout, it is a file of bytes
            self._array = unpack_array_metadata(front.metadata)
        self.shape = self._new_shape()
        self.rows = self._missing_rows()

    @property
    def row_nbytes(self) -> int:
        """Bytes of a row, or of the item of an array without dimensions; 0 without an array."""
        if self._array is None:
            return 0
        dtype, shape, is_fortran = self._array
        return prod(shape[:-1] if is_fortran else shape[1:]) * dtype.itemsize

    def _new_shape(self) -> tuple[int, ...] | None:
        """Return the shape of the new array; cut the content to whole rows."""
        if self.grid is not None:
            return self.grid.shape[:: -1 if self.grid.is_fortran else 1]
        row = self.row_nbytes
        if self._array is None or not row:
            return self._array and self._array[1]
        _, shape, is_fortran = self._array
        # What is missing of the first row becomes zeros; of others it is cut off.
        rows = max(self.found // row, 1) if self.found else 0
        self.new_nbytes = rows * row
        if not shape:
            self.new_nbytes = row
            return shape
        return (*shape[:-1], rows) if is_fortran else (rows, *shape[1:])

    def _missing_rows(self) -> list[tuple[int, int]]:
        """Return the rows of the new array that are zeros, at least in part."""
        row, step = self.row_nbytes, self._salvage.chunk_size
        if not row:
            return []
        if self.grid is not None:
            boxes = ((self.grid.box(one)[0], self.grid.box(two - 1)[0]) for one, two in self.gaps)
            return list(_merged([(low.start, high.stop) for low, high in boxes]))
        lost = [(start * step, stop * step) for start, stop in self.gaps]
        if self.new_nbytes > self.found:
            lost.append((self.found, self.new_nbytes))
        last = self.new_nbytes // row
        end = self.new_nbytes
        spans = [(one // row, min(-(-two // row), last)) for one, two in lost if one < end]
        return list(_merged(spans))

    def section(self) -> bytes:
        """Return the metadata section of the new file."""
        front = self._front
        if front.meta is None or self._array is None:
            return front.section
        metadata = dict(front.metadata)
        if self.shape == self._array[1] and not self.rows:
            return front.section
        metadata["shape"] = list(self.shape or ())
        is_cut = prod(self.shape or ()) < prod(self._array[1])
        if is_cut or self.rows:
            self._list_missing(metadata)
        reserved = front.meta.max_meta_size
        return pack_section(
            metadata,
            checksum=front.meta.meta_checksum.name,
            codec=front.meta.meta_codec,
            reserve=lambda nbytes: max(nbytes, reserved),
        )

    def _list_missing(self, metadata: dict[str, Any]) -> None:
        """List the missing rows in attrs, beside those of an earlier recovery."""
        attrs = metadata.get("attrs")
        attrs = dict(attrs) if isinstance(attrs, dict) else {}
        rows = [*self.rows, *_rows_before(attrs.get(ATTRS_KEY))]
        attrs[ATTRS_KEY] = {"missing_rows": [list(one) for one in _merged(rows)]}
        metadata["attrs"] = attrs

    def chunking(self) -> Chunking:
        """Return the chunking of the new file: as before, unless one chunk is larger."""
        if self.grid is not None:
            return Chunking(self.grid.nchunks, UNKNOWN, self.grid.size(self.grid.nchunks - 1))
        step = self._salvage.chunk_size
        if self.count == 1 and self.new_nbytes > step:
            step = self.new_nbytes
        if not self.new_nbytes:
            return Chunking(1, max(step, 0), 0)
        return Chunking.of(self.new_nbytes, step)

    def pieces(self, source: ByteSource) -> Iterator[_Piece]:
        """Yield the chunks of the new file."""
        if self.grid is not None:
            for index in range(self.grid.nchunks):
                found = self._salvage.chunks.get(index)
                if found is None:
                    yield self._zero(self.grid.size(index))
                else:
                    yield _Piece(found.nbytes, found.cbytes, found.digest, found.offset)
            return
        chunking = self.chunking()
        step = chunking.chunk_size
        for index in range(chunking.nchunks):
            is_last = index == chunking.nchunks - 1
            nbytes = chunking.last_chunk if is_last else step
            found = self._salvage.chunks.get(index)
            if found is not None and found.nbytes == nbytes:
                yield _Piece(nbytes, found.cbytes, found.digest, found.offset)
            elif found is None and index * step >= self._tail_start():
                yield self._encode(self._tail(source, index * step, nbytes))
            elif found is None:
                yield self._zero(nbytes)
            else:
                content = _decode(source, found)[:nbytes]
                yield self._encode(content + bytes(nbytes - len(content)))

    def statistics(self) -> "Statistics | None":
        """Return the statistics of the chunks of the new file; None if the damaged one has none."""
        if self._array is None or not self._front.has_statistics:
            return None
        size = self.chunking().chunk_size if self.grid is None else self.grid.chunk_nbytes
        with suppress(FormatError):  # those that such items cannot have
            return statistics_type().stored(self._array[0], size)
        return None

    def _tail_start(self) -> int:
        """Return the content position of the last chunk that was found."""
        return max(self.count - 1, 0) * self._salvage.chunk_size

    def _tail(self, source: ByteSource, start: int, nbytes: int) -> bytes:
        """Return content of the last chunk found, followed by zeros."""
        found = self._salvage.chunks.get(self.count - 1)
        at = start - self._tail_start()
        content = _decode(source, found)[at : at + nbytes] if found else b""
        return content + bytes(nbytes - len(content))

    def _zero(self, nbytes: int) -> _Piece:
        if nbytes not in self._zeros:
            self._zeros[nbytes] = self._encode(bytes(nbytes))
        return self._zeros[nbytes]

    def _encode(self, content: bytes) -> _Piece:
        chunk = encode(content, self._params())
        return _Piece(len(content), len(chunk), xxh3_64_digest(chunk), data=chunk)

    def _params(self) -> CodecParams:
        codec = "zstd" if "zstd" in CODECS else CODECS[0]
        return CodecParams(codec, typesize=self._front.header.typesize or 1)


def _iter_gaps(chunks: Iterable[int], count: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of indices below `count` that are missing from `chunks`."""
    before = -1
    for index in (*sorted(chunks), count):
        if index > before + 1:
            yield before + 1, index
        before = index


def _decode(source: ByteSource, found: FoundChunk) -> bytes:
    return decode(source.read_at(found.offset, found.cbytes), found.nbytes)


def _merged(ranges: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield ascending ranges, with those joined that touch or overlap."""
    start, stop = -1, -1
    for one, two in sorted(ranges):
        if one > stop:
            if stop >= 0:
                yield start, stop
            start, stop = one, two
        stop = max(stop, two)
    if stop >= 0:
        yield start, stop


def _rows_before(value: Any) -> list[tuple[int, int]]:
    """Return the rows listed in attrs by an earlier recovery."""
    rows = value.get("missing_rows") if isinstance(value, dict) else None
    if not isinstance(rows, list):
        return []
    return [
        (one[0], one[1])
        for one in rows
        if isinstance(one, list) and len(one) == 2 and all(type(row) is int for row in one)
    ]


def _report(source: ByteSource, front: FoundFront, salvage: Salvage, plan: _Plan) -> Report:
    damage = [Damage(what, None, offset, end) for what, offset, end in front.faults]
    row = plan.row_nbytes
    nchunks = max(salvage.nchunks, 0)
    missing = list(_iter_gaps(salvage.chunks, nchunks))
    if plan.grid is not None:
        missing = [*plan.gaps, *([(plan.count, nchunks)] if plan.count < nchunks else [])]
    digest_size = front.header.checksum.nbytes
    for start, stop in missing:
        first = salvage.start_of(start)
        last = salvage.nbytes if stop == salvage.nchunks else salvage.start_of(stop)
        rows = (first // row, -(-last // row)) if row else None
        if salvage.grid is not None:
            rows = salvage.grid.box(start)[0].start, salvage.grid.box(stop - 1)[0].stop
        before, after = salvage.chunks.get(start - 1), salvage.chunks.get(stop)
        offset = before.offset + before.cbytes + digest_size if before else None
        end = after.offset if after else None
        many = f"chunks {start} to {stop - 1} are" if stop - start > 1 else f"chunk {start} is"
        is_cut = start >= plan.count if plan.grid else stop == salvage.nchunks
        where = "cut off" if is_cut else "zeros in the new file"
        what = f"{many} missing: {where}"
        region = region_of(salvage.grid, start, stop)
        damage.append(Damage(what, start, offset, end, first, last, rows, region=region))
    if plan.new_nbytes < plan.found:
        rows = (plan.new_nbytes // row, -(-plan.found // row))
        what = "the last row is not whole: cut off"
        damage.append(Damage(what, None, None, None, plan.new_nbytes, plan.found, rows))
    for chunk in salvage.unplaced:
        what = f"a whole chunk of {chunk.nbytes} bytes whose index is unknown: not saved"
        damage.append(Damage(what, None, chunk.offset, chunk.offset + chunk.cbytes + digest_size))
    if salvage.gave_up:
        damage.append(Damage("the search was stopped: too many false chunks"))
    state = "absent" if front.trailer is None else "valid" if front.is_current else "stale"
    return Report(
        source.name,
        nchunks,
        salvage.nbytes,
        damage,
        state,
        [f"{front.restored}; restored from the copy in the trailer"] if front.restored else [],
        saved=len(salvage.chunks),
    )


def _write(
    sink: ByteSink,
    source: ByteSource,
    front: FoundFront,
    section: bytes,
    plan: _Plan,
    progress: Progress | None,
) -> None:
    chunking = plan.chunking()
    old = front.header
    digest = old.checksum.digest
    spare = _spare(source, old, chunking.nchunks)
    header = build_header(
        chunking,
        checksum=old.checksum,
        typesize=old.typesize,
        offsets=True,
        max_app_chunks=spare,
        meta_checksum=front.meta.meta_checksum if front.meta else None,
        features=old.features,
    )
    head = header.pack() + section
    sink.write(head)
    write_unused(sink, header.table_size)
    position = len(head) + header.table_size
    offsets: list[int] = []
    digests: list[bytes] = []
    statistics = plan.statistics()
    records: list[bytes] = []
    done = 0
    for piece in plan.pieces(source):
        data = piece.data or source.read_at(piece.offset, piece.cbytes)
        if xxh3_64_digest(data) != piece.digest:
            raise FileChangedError(
                "the file was changed while it was being recovered; nothing was written"
            )
        offsets.append(position)
        digests.append(piece.digest)
        if statistics is not None:
            records.append(statistics.record(decode(data, piece.nbytes)))
        sink.write(data)
        inline = digest(data)
        sink.write(inline)
        position += len(data) + len(inline)
        done += piece.nbytes
        if progress is not None:
            progress(done, plan.new_nbytes)
    sink.write_at(len(head), pack_offsets(offsets))
    for part in pack_trailer(head, offsets, b"".join(digests), position, b"".join(records)):
        sink.write(part)


def _spare(source: ByteSource, old: Header, nchunks: int) -> int:
    """Return the spare entries of the new table: as many as before, if the header allows it."""
    if old.offsets and OFFSET_SIZE * old.max_app_chunks <= source.size():
        return old.max_app_chunks
    return min(spare_entries(nchunks), MAX_CHUNKS)
