"""Box structure of a dataset: the tracks of its mp4 and the places of their tables.

Only headers are read, through a `Read` that the caller passes, and the runs of chunks, to check
that the tables of a track describe the same samples. The tables themselves are read when the track
is used. Contract: any bytes yield a `Movie`, a `FormatError` or an `UnsupportedError`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...plugin import FormatError, UnsupportedError
from .bmff import (
    CHUNK_RUN,
    CONTAINERS,
    FULL_NBYTES,
    HEADER_NBYTES,
    TIME_RUN,
    UINT32,
    UINT64,
    BoxHeader,
    Read,
    Table,
    check_boxes,
    children,
    find_boxes,
    name_of,
    read_box,
    unpack_count,
    unpack_table,
)
from .boxes import (
    MEDIA_HEADER_NBYTES,
    MOVIE_HEADER_NBYTES,
    TRACK_HEADER_NBYTES,
    VISUAL_ENTRY_NBYTES,
    MediaHeader,
    MovieHeader,
    TrackHeader,
    unpack_brands,
    unpack_hdlr,
    unpack_mdhd,
    unpack_mett,
    unpack_mvhd,
    unpack_tkhd,
    unpack_visual,
)
from .format import CONFIG_KINDS, PREFIX, PROTECTED_KINDS, VIDEO_HANDLER, unpack_text

# Largest part of a text or list that is read; a file may make them of any length.
_TEXT_LIMIT = 4096

# Number of runs of chunks to check at once.
_BLOCK_COUNT = 65_536

_MAX_OFFSET = 2**62


class Extent(NamedTuple):
    """A range of bytes in the file."""

    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class TrackTable:
    """One track of a dataset: the form of its samples and the tables that locate them."""

    name: str
    handler: bytes
    """``vide`` or ``meta``."""
    header: TrackHeader
    media: MediaHeader
    entry_kind: bytes
    """Type of the first sample entry: ``mett``, ``hvc1``, ...; empty if the track has no entry."""
    entry: Extent
    """The whole first sample entry."""
    mime: str
    """MIME type of metadata; empty for pictures."""
    frame: tuple[int, int]
    """(width, height) of pictures, from the first entry; (0, 0) for metadata."""
    config_kind: bytes
    """``hvcC``, ``avcC``, ``av1C``, or empty."""
    config: Extent
    """Payload of that box."""
    count: int
    """Number of samples."""
    sample_nbytes: int
    """Size of each sample in bytes, or 0 if `sizes` has them."""
    sizes: Table
    runs: Table
    """Table of `CHUNK_RUN`."""
    chunks: Table
    """Offsets of chunks, 32 or 64 bits each."""


@dataclass(frozen=True, slots=True)
class Movie:
    """Box structure of a dataset."""

    brands: tuple[bytes, ...]
    moov: BoxHeader
    header: MovieHeader
    """All fields are 0 if the file has no movie header."""
    tracks: dict[str, TrackTable]
    """The tracks with names that begin with ``bzna_``, in file order."""
    others: tuple[str, ...]
    """Names of other tracks."""


def unpack_movie(read: Read, nbytes: int) -> Movie:
    """Read the box structure of a dataset of `nbytes` by `read`, see `bmff.Window`.

    FormatError: a box exceeds its parent or a table its box, a table is missing, two tables
    contradict each other, or two tracks have the same name. UnsupportedError: sample sizes are in
    the compact form (``stz2``), or samples are encrypted, in fragments, or stored in another file.
    """
    brands, moov, fragment = _find_moov(read, nbytes)
    tracks: dict[str, TrackTable] = {}
    others: list[str] = []
    header = MovieHeader(0, 0, 0)
    # Other containers are not used, but their boxes must be valid.
    for box in children(read, moov.payload_offset, moov.end, CONTAINERS | {b"mvhd"}):
        if box.kind == b"mvhd":
            header = read_box(read, box, unpack_mvhd, MOVIE_HEADER_NBYTES)
        elif box.kind == b"trak":
            _add_track(read, box, nbytes, tracks, others)
        elif box.nbytes > box.header_nbytes:
            check_boxes(read, box.payload_offset, box.end)
    if tracks and fragment is not None:
        raise UnsupportedError(
            f"the samples of fragments (box 'moof' at offset {fragment.offset}) are not read: "
            "'ffmpeg -i IN -map 0 -c copy OUT' makes a file without fragments"
        )
    return Movie(brands, moov, header, tracks, tuple(others))


def _find_moov(read: Read, nbytes: int) -> tuple[tuple[bytes, ...], BoxHeader, BoxHeader | None]:
    """Check the outermost boxes and return the brands, the moov, and the first fragment if any."""
    brands: tuple[bytes, ...] = ()
    moov = fragment = None
    kinds = {b"ftyp", b"moov", b"moof"}
    for box in children(read, 0, nbytes, kinds, to_end=True):
        if box.kind == b"ftyp":
            brands = read_box(read, box, unpack_brands, _TEXT_LIMIT)
            kinds.discard(b"ftyp")
        elif box.kind == b"moof":
            fragment = box
            kinds.discard(b"moof")
        elif moov is not None:
            raise FormatError(
                f"second box 'moov' at offset {box.offset}; the first is at {moov.offset}",
                offset=box.offset,
            )
        else:
            moov = box
    if moov is None:
        raise FormatError("no box 'moov': not a dataset, or one whose writing did not finish")
    return brands, moov, fragment


def _add_track(
    read: Read, trak: BoxHeader, nbytes: int, tracks: dict[str, TrackTable], others: list[str]
) -> None:
    """Read a track into `tracks`, or just its name into `others`."""
    inner = find_boxes(read, trak.payload_offset, trak.end, b"tkhd", b"mdia")
    media: dict[bytes, BoxHeader] = {}
    if b"mdia" in inner:
        mdia = inner[b"mdia"]
        media = find_boxes(read, mdia.payload_offset, mdia.end, b"mdhd", b"hdlr", b"minf")
    handler, name = b"", ""
    if b"hdlr" in media:
        handler, stored = read_box(read, media[b"hdlr"], unpack_hdlr, _TEXT_LIMIT)
        name = unpack_text(stored)
    if not name.startswith(PREFIX):
        others.append(name)
        return
    if name in tracks:
        raise FormatError(f"two tracks have the name {name!r}", offset=trak.offset)
    try:
        tracks[name] = _unpack_track(read, trak, {**inner, **media}, handler, name)
        _check_counts(read, tracks[name], nbytes)
    except FormatError as err:
        err.at(f"track {name!r}")
        raise


def _unpack_track(
    read: Read, trak: BoxHeader, boxes: dict[bytes, BoxHeader], handler: bytes, name: str
) -> TrackTable:
    check_boxes(read, trak.payload_offset, trak.end)
    inner = _tables_of(read, boxes.get(b"minf"))
    if b"stz2" in inner:
        raise UnsupportedError(f"track {name!r}: compact sample sizes ('stz2') are unsupported")
    offsets_kind = b"co64" if b"co64" in inner else b"stco"
    for kind in (b"stsz", b"stsc", offsets_kind):
        if kind not in inner:
            raise FormatError(f"no box {name_of(kind)!r}", offset=trak.offset)
    if b"stts" in inner:
        unpack_table(read, inner[b"stts"], TIME_RUN)
    stsz = inner[b"stsz"]
    sample_nbytes = read_box(read, stsz, unpack_count, 4, FULL_NBYTES)
    # If all samples have the same size, no table follows the count.
    sizes = unpack_table(read, stsz, UINT32 if sample_nbytes == 0 else _NOTHING, skip=4)
    entry = _NO_ENTRY
    if b"stsd" in inner:
        _check_entries(read, inner[b"stsd"], _data_references(read, boxes.get(b"minf")), name)
        entry = _unpack_entry(read, inner[b"stsd"], handler)
    return TrackTable(
        name,
        handler,
        read_box(read, boxes[b"tkhd"], unpack_tkhd, TRACK_HEADER_NBYTES)
        if b"tkhd" in boxes
        else TrackHeader(0, 0, 0, 0, 0),
        read_box(read, boxes[b"mdhd"], unpack_mdhd, MEDIA_HEADER_NBYTES)
        if b"mdhd" in boxes
        else MediaHeader(0, 0),
        *entry,
        count=sizes.count,
        sample_nbytes=sample_nbytes,
        sizes=sizes if sample_nbytes == 0 else Table(sizes.offset, 0, UINT32),
        runs=unpack_table(read, inner[b"stsc"], CHUNK_RUN),
        chunks=unpack_table(
            read, inner[offsets_kind], UINT64 if offsets_kind == b"co64" else UINT32
        ),
    )


def _tables_of(read: Read, minf: BoxHeader | None) -> dict[bytes, BoxHeader]:
    """Return the known boxes of a track's tables, by type."""
    stbl = _find_inside(read, minf, b"stbl")
    if stbl is None:
        return {}
    found: dict[bytes, BoxHeader] = {}
    kinds = {b"stsd", b"stts", b"stsz", b"stz2", b"stsc", *_CHUNK_OFFSETS}
    for box in children(read, stbl.payload_offset, stbl.end, kinds):
        if box.kind not in _CHUNK_OFFSETS:
            kinds.discard(box.kind)
        elif found.keys() & _CHUNK_OFFSETS:
            raise FormatError("two tables of chunk offsets", offset=box.offset)
        found[box.kind] = box
    return found


def _find_inside(read: Read, box: BoxHeader | None, kind: bytes) -> BoxHeader | None:
    """Return the box of a type inside of another, if both exist."""
    if box is None:
        return None
    return find_boxes(read, box.payload_offset, box.end, kind).get(kind)


_CHUNK_OFFSETS = frozenset((b"stco", b"co64"))
_NOTHING = np.dtype([])
# Boxes that are counted like the entries of a table; each takes at least its header.
_BOXES = np.dtype((np.void, HEADER_NBYTES))
_Entry = tuple[bytes, Extent, str, tuple[int, int], bytes, Extent]
_NO_ENTRY: _Entry = (b"", Extent(0, 0), "", (0, 0), b"", Extent(0, 0))


_REFERENCE_AT = 6  # offset of the data reference index in a sample entry
_IS_INSIDE = 1  # flag of a data reference: the samples are in this file
_REFERENCE_KINDS = b"url ", b"urn ", b"alis"


def _data_references(read: Read, minf: BoxHeader | None) -> list[bytes] | None:
    """Return the types of a track's data references, b"" for references to this file.

    Return None without a table of references; the samples are then in this file, too.
    """
    dref = _find_inside(read, _find_inside(read, minf, b"dinf"), b"dref")
    if dref is None:
        return None
    table = unpack_table(read, dref, _BOXES)
    found = []
    for box in children(read, table.offset, dref.end):
        flags = bytes(read(box.payload_offset, min(FULL_NBYTES, box.end - box.payload_offset)))
        is_inside = box.kind == b"url " and len(flags) == FULL_NBYTES and flags[3] & _IS_INSIDE
        found.append(b"" if is_inside else box.kind)
    return found


def _check_entries(read: Read, stsd: BoxHeader, references: list[bytes] | None, name: str) -> None:
    """Refuse a track with samples that are encrypted, restricted or in another file."""
    entries = unpack_table(read, stsd, _BOXES)
    for entry in children(read, entries.offset, stsd.end):
        if entry.kind in PROTECTED_KINDS:
            raise UnsupportedError(
                f"track {name!r}: sample entry {name_of(entry.kind)!r}: the samples are encrypted "
                "or restricted, which is not supported"
            )
        end = _REFERENCE_AT + 2
        if references is None or entry.end - entry.payload_offset < end:
            continue
        number = int.from_bytes(read(entry.payload_offset, end)[_REFERENCE_AT:], "big")
        if not 1 <= number <= len(references):
            raise FormatError(
                f"sample entry {name_of(entry.kind)!r}: data reference {number}, the track has "
                f"{len(references)}",
                offset=entry.offset,
                field="dref",
            )
        kind = references[number - 1]
        if kind and kind not in _REFERENCE_KINDS:
            raise FormatError(
                f"data reference {number} has type {name_of(kind)!r}, expected 'url ' or 'urn '",
                offset=entry.offset,
                field="dref",
            )
        if kind:
            raise UnsupportedError(
                f"track {name!r}: its samples are in another file (data reference "
                f"{name_of(kind)!r}), which is not supported: copy them into this file"
            )


def _unpack_entry(read: Read, stsd: BoxHeader, handler: bytes) -> _Entry:
    """Return the fields of `TrackTable` from `entry_kind` to `config`."""
    entries = unpack_table(read, stsd, _BOXES)
    if entries.count == 0:
        return _NO_ENTRY
    entry = next(children(read, entries.offset, stsd.end))
    extent = Extent(entry.offset, entry.nbytes)
    if handler != VIDEO_HANDLER:
        mime = b""
        if entry.kind == b"mett":
            _, mime = read_box(read, entry, unpack_mett, _TEXT_LIMIT)
        return entry.kind, extent, unpack_text(mime), (0, 0), b"", Extent(0, 0)
    visual = read_box(read, entry, unpack_visual, VISUAL_ENTRY_NBYTES)
    start = entry.payload_offset + VISUAL_ENTRY_NBYTES
    configs = find_boxes(read, start, entry.end, *CONFIG_KINDS)
    box = next(iter(configs.values()), None)
    config, kind = Extent(0, 0), b""
    if box is not None:
        config, kind = Extent(box.payload_offset, box.end - box.payload_offset), box.kind
    return entry.kind, extent, "", (visual.width, visual.height), kind, config


def _check_counts(read: Read, track: TrackTable, nbytes: int) -> None:
    """Raise `FormatError` if sizes, runs and chunks contradict each other."""
    if track.count * track.sample_nbytes > nbytes:
        raise FormatError(
            f"{track.count} samples of {track.sample_nbytes} bytes exceed the file size {nbytes}",
            field="stsz",
        )
    _check_runs(_runs_of(read, track.runs), track.chunks.count, track.count)


def _runs_of(read: Read, table: Table) -> Iterator[NDArray[np.void]]:
    for start in range(0, table.count, _BLOCK_COUNT):
        count = min(table.count - start, _BLOCK_COUNT)
        stored = read(table.offset + start * CHUNK_RUN.itemsize, count * CHUNK_RUN.itemsize)
        yield np.frombuffer(stored, CHUNK_RUN)


def _check_runs(blocks: Iterable[NDArray[np.void]], nchunks: int, count: int) -> None:
    """Raise `FormatError` unless the runs of ``stsc`` put `count` samples into `nchunks` chunks.

    No array is allocated by these numbers before they are known to agree.
    """
    if nchunks == 0 and count == 0:
        return
    total, last, samples = 0, 0, 0
    for block in blocks:
        firsts = np.concatenate(([last], block["first"].astype(np.int64)))
        lengths = firsts[1:] - firsts[:-1]
        held = np.concatenate(([samples], block["samples"].astype(np.int64)))
        if (lengths <= 0).any() or firsts[-1] > nchunks or (last == 0 and firsts[1] != 1):
            raise FormatError(f"stsc: its runs do not match the {nchunks} chunks", field="stsc")
        # Both factors have 32 bits, and the lengths add up to at most 32 bits: a sum that is too
        # large turns negative and stays negative.
        total += int((lengths * held[:-1]).sum())
        last, samples = int(firsts[-1]), int(held[-1])
    if total + (nchunks + 1 - last) * samples != count:
        raise FormatError(
            f"stsc does not put the {count} samples of stsz into {nchunks} chunks", field="stsc"
        )


def sample_offsets(
    track: TrackTable, sizes: NDArray[Any], runs: NDArray[np.void], chunks: NDArray[Any]
) -> NDArray[Any]:
    """Return the offset of each sample of a track from the contents of its tables.

    It is `chunks` itself if every chunk is one sample, as in files of Benzina's tools, else int64.
    Offsets of 2**62 or more, beyond any file, may be replaced by 2**62.
    """
    firsts, starts = _chunk_places(track, runs, chunks)
    if firsts is None:
        return starts
    return _in_chunks(track.sample_nbytes or sizes[:-1], track.count, firsts, starts)


def _in_chunks(
    sizes: int | NDArray[Any], count: int, firsts: NDArray[np.int64], starts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the offsets of `count` samples; `sizes` has the sizes of all but the last."""
    # Fill the array with the distance from each sample to the next, in place: the file may declare
    # far more samples than it has bytes, so only one array of that length is allocated.
    offsets: NDArray[np.int64] = np.empty(count, np.int64)
    offsets[1:] = sizes
    offsets[firsts] = 0
    ends = np.add.reduceat(offsets, firsts)
    ends += starts
    offsets[0] = starts[0]
    offsets[firsts[1:]] = starts[1:] - ends[:-1]
    return np.cumsum(offsets, out=offsets)


def _chunk_places(
    track: TrackTable, runs: NDArray[np.void], chunks: NDArray[Any]
) -> tuple[NDArray[np.int64] | None, NDArray[Any]]:
    """Return the first sample of each chunk, and the chunk's offset.

    Chunks without samples are left out. If every chunk is one sample, or the track is empty, the
    first result is None and the second is `chunks`.
    """
    _check_runs([runs] if len(runs) else [], len(chunks), track.count)
    if not track.count:
        return None, chunks[:0]
    if track.count == len(chunks) and (runs["samples"] == 1).all():
        return None, chunks
    first_chunks = np.append(runs["first"].astype(np.int64), len(chunks) + 1)
    held = np.repeat(runs["samples"].astype(np.int64), np.diff(first_chunks))
    firsts = np.cumsum(held)
    firsts -= held
    starts = chunks.astype(np.uint64)
    np.minimum(starts, _MAX_OFFSET, out=starts)
    return firsts[held > 0], starts.view(np.int64)[held > 0]


class EvenOffsets:
    """Offsets of samples of equal size, computed on demand: a file may declare many of them."""

    def __init__(self, track: TrackTable, runs: NDArray[np.void], chunks: NDArray[Any]) -> None:
        self._count, self._nbytes = track.count, track.sample_nbytes
        self._firsts, self._starts = _chunk_places(track, runs, chunks)

    def all(self) -> NDArray[Any]:
        """Return the offsets of all samples, like `sample_offsets`."""
        if self._firsts is None:
            return self._starts
        return _in_chunks(self._nbytes, self._count, self._firsts, self._starts)

    def take(self, indices: Any) -> NDArray[Any]:
        """Return the offsets of some samples, as int64 or as stored."""
        if self._firsts is None:
            return np.asarray(self._starts[indices])
        chunk = np.searchsorted(self._firsts, indices, "right") - 1
        return np.asarray(self._starts[chunk] + (indices - self._firsts[chunk]) * self._nbytes)
