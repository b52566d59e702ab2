"""The outline of a dataset: which tracks its mp4 has and where their tables lie.

Only headers are read, through a `Read` that the caller gives, and the runs of chunks, to check that
a track's tables are of the same samples; the tables stay where they are until somebody wants the
track. Contract: any bytes give a `Movie`, a `FormatError` or an `UnsupportedError`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...exceptions import FormatError, UnsupportedError
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
    first_of,
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

# What is read of texts and lists that a file may make as long as it is.
_TEXT_LIMIT = 4096
_MAX_OTHERS = 64

# Runs of chunks that are checked at once.
_BLOCK_COUNT = 65_536

_MAX_OFFSET = 2**62


class Extent(NamedTuple):
    """Bytes of the file."""

    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class TrackTable:
    """One track of a dataset: what its samples are and where the tables lie that locate them."""

    name: str
    handler: bytes
    """``vide`` or ``meta``."""
    header: TrackHeader
    media: MediaHeader
    entry_kind: bytes
    """Kind of the first sample entry: ``mett``, ``hvc1``, ...; empty if there is none."""
    entry: Extent
    """The first sample entry, whole."""
    mime: str
    """Of metadata; empty for pictures."""
    frame: tuple[int, int]
    """(width, height) of pictures, of the first entry; (0, 0) for metadata."""
    config_kind: bytes
    """``hvcC``, ``avcC``, ``av1C``, or empty."""
    config: Extent
    """Payload of that box."""
    count: int
    """Number of samples."""
    sample_nbytes: int
    """Size of each sample, or 0 where `sizes` has them."""
    sizes: Table
    runs: Table
    """Of `CHUNK_RUN`."""
    chunks: Table
    """Offsets of chunks, 32 or 64 bits each."""


@dataclass(frozen=True, slots=True)
class Movie:
    """Outline of a dataset."""

    brands: tuple[bytes, ...]
    moov: BoxHeader
    header: MovieHeader
    """All 0 where there is none."""
    tracks: dict[str, TrackTable]
    """The tracks whose names begin with ``bzna_``, in the order of the file."""
    others: tuple[str, ...]
    """Names of other tracks, the first of them."""


def unpack_movie(read: Read, nbytes: int) -> Movie:
    """Read the outline of a dataset.

    Parameters
    ----------
    read : callable
        Gives bytes of the file; see `bmff.Window`.
    nbytes : int
        Size of the file.

    Raises
    ------
    FormatError
        A box exceeds its parent or a table its box, a table is missing, two tables cannot both be
        right, or two tracks have one name.
    UnsupportedError
        Sample sizes are in the compact form (``stz2``), or samples are encrypted or not in the
        file.
    """
    brands, moov = _find_moov(read, nbytes)
    tracks: dict[str, TrackTable] = {}
    others: list[str] = []
    header = MovieHeader(0, 0, 0)
    # Of other containers nothing is used, but they must be sound.
    for box in children(read, moov.payload_offset, moov.end, CONTAINERS | {b"mvhd"}):
        if box.kind == b"mvhd":
            header = read_box(read, box, unpack_mvhd, MOVIE_HEADER_NBYTES)
        elif box.kind == b"trak":
            _add_track(read, box, nbytes, tracks, others)
        elif box.nbytes > box.header_nbytes:
            check_boxes(read, box.payload_offset, box.end)
    return Movie(brands, moov, header, tracks, tuple(others))


def _find_moov(read: Read, nbytes: int) -> tuple[tuple[bytes, ...], BoxHeader]:
    """Go through the outermost boxes and return (brands, moov)."""
    brands: tuple[bytes, ...] = ()
    moov: BoxHeader | None = None
    kinds = {b"ftyp", b"moov"}
    for box in children(read, 0, nbytes, kinds, to_end=True):
        if box.kind == b"ftyp":
            brands = read_box(read, box, unpack_brands, _TEXT_LIMIT)
            kinds.discard(b"ftyp")
        else:
            if moov is not None:
                raise FormatError(
                    f"a second box 'moov' at offset {box.offset}; one is at {moov.offset}",
                    offset=box.offset,
                )
            moov = box
    if moov is None:
        raise FormatError("no box 'moov': not a dataset, or one that was not finished")
    return brands, moov


def _add_track(
    read: Read, trak: BoxHeader, nbytes: int, tracks: dict[str, TrackTable], others: list[str]
) -> None:
    """Read a track into `tracks`, or only its name into `others`."""
    inner = first_of(read, trak.payload_offset, trak.end, b"tkhd", b"mdia")
    media: dict[bytes, BoxHeader] = {}
    if b"mdia" in inner:
        mdia = inner[b"mdia"]
        media = first_of(read, mdia.payload_offset, mdia.end, b"mdhd", b"hdlr", b"minf")
    handler, name = b"", ""
    if b"hdlr" in media:
        handler, stored = read_box(read, media[b"hdlr"], unpack_hdlr, _TEXT_LIMIT)
        name = unpack_text(stored)
    if not name.startswith(PREFIX):
        if len(others) < _MAX_OTHERS:
            others.append(name)
        return
    if name in tracks:
        raise FormatError(f"two tracks are called {name!r}", offset=trak.offset)
    try:
        tracks[name] = _unpack_track(read, trak, {**inner, **media}, handler, name)
        _check_counts(read, tracks[name], nbytes)
    except FormatError as err:
        message = f"track {name!r}: {err}"
        raise type(err)(message, offset=err.offset, field=err.field) from err


def _unpack_track(
    read: Read, trak: BoxHeader, boxes: dict[bytes, BoxHeader], handler: bytes, name: str
) -> TrackTable:
    check_boxes(read, trak.payload_offset, trak.end)
    inner = _tables_of(read, boxes.get(b"minf"))
    if b"stz2" in inner:
        raise UnsupportedError(f"track {name!r}: sample sizes in the compact form 'stz2'")
    offsets_kind = b"co64" if b"co64" in inner else b"stco"
    for kind in (b"stsz", b"stsc", offsets_kind):
        if kind not in inner:
            raise FormatError(f"it has no box {name_of(kind)!r}", offset=trak.offset)
    if b"stts" in inner:
        unpack_table(read, inner[b"stts"], TIME_RUN)
    stsz = inner[b"stsz"]
    sample_nbytes = read_box(read, stsz, unpack_count, 4, FULL_NBYTES)
    # With a size that all samples share, no table follows the count.
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
    """Return the boxes of a track's tables that are known, by their kind."""
    if minf is None:
        return {}
    stbl = first_of(read, minf.payload_offset, minf.end, b"stbl").get(b"stbl")
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


_CHUNK_OFFSETS = frozenset((b"stco", b"co64"))
_NOTHING = np.dtype([])
_Entry = tuple[bytes, Extent, str, tuple[int, int], bytes, Extent]
_NO_ENTRY: _Entry = (b"", Extent(0, 0), "", (0, 0), b"", Extent(0, 0))


_REFERENCE_AT = 6  # of the index of its data reference in an entry, after the reserved bytes
_IS_INSIDE = 1  # flag of a data reference: the samples are in this file
_REFERENCE_KINDS = b"url ", b"urn ", b"alis"


def _data_references(read: Read, minf: BoxHeader | None) -> list[bytes] | None:
    """Return for each data reference of a track what is wrong with it, b"" if it is this file.

    None if there is no table of them: then nothing says that samples are elsewhere.
    """
    if minf is None:
        return None
    dinf = first_of(read, minf.payload_offset, minf.end, b"dinf").get(b"dinf")
    if dinf is None:
        return None
    dref = first_of(read, dinf.payload_offset, dinf.end, b"dref").get(b"dref")
    if dref is None:
        return None
    table = unpack_table(read, dref, np.dtype((np.void, HEADER_NBYTES)))
    found = []
    for box in children(read, table.offset, dref.end):
        flags = bytes(read(box.payload_offset, min(FULL_NBYTES, box.end - box.payload_offset)))
        is_inside = box.kind == b"url " and len(flags) == FULL_NBYTES and flags[3] & _IS_INSIDE
        found.append(b"" if is_inside else box.kind)
    return found


def _check_entries(read: Read, stsd: BoxHeader, references: list[bytes] | None, name: str) -> None:
    """Refuse a track whose samples are encrypted or in another file.

    Raises
    ------
    UnsupportedError
        They are.
    FormatError
        A sample entry names a data reference that is not there, or is not of a known kind.
    """
    entries = unpack_table(read, stsd, np.dtype((np.void, HEADER_NBYTES)))
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
                f"sample entry {name_of(entry.kind)!r}: data reference {number} of "
                f"{len(references)}",
                offset=entry.offset,
                field="dref",
            )
        kind = references[number - 1]
        if kind and kind not in _REFERENCE_KINDS:
            raise FormatError(
                f"data reference {number} is of kind {name_of(kind)!r}, not 'url ' or 'urn '",
                offset=entry.offset,
                field="dref",
            )
        if kind:
            raise UnsupportedError(
                f"track {name!r}: its samples are in another file (data reference "
                f"{name_of(kind)!r}), which is not read: copy them into this one"
            )


def _unpack_entry(read: Read, stsd: BoxHeader, handler: bytes) -> _Entry:
    """Return the fields of `TrackTable` from `entry_kind` to `config`."""
    # Each entry is at least a header.
    entries = unpack_table(read, stsd, np.dtype((np.void, HEADER_NBYTES)))
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
    configs = first_of(read, start, entry.end, *CONFIG_KINDS)
    box = next(iter(configs.values()), None)
    config, kind = Extent(0, 0), b""
    if box is not None:
        config, kind = Extent(box.payload_offset, box.end - box.payload_offset), box.kind
    return entry.kind, extent, "", (visual.width, visual.height), kind, config


def _check_counts(read: Read, track: TrackTable, nbytes: int) -> None:
    """Raise `FormatError` if sizes, runs and chunks cannot be of the same samples."""
    if track.count * track.sample_nbytes > nbytes:
        raise FormatError(
            f"{track.count} samples of {track.sample_nbytes} bytes exceed the file's {nbytes}",
            field="stsz",
        )
    _check_runs(_runs_of(read, track.runs), track.chunks.count, track.count)


def _runs_of(read: Read, table: Table) -> Iterator[NDArray[np.void]]:
    for start in range(0, table.count, _BLOCK_COUNT):
        count = min(table.count - start, _BLOCK_COUNT)
        stored = read(table.offset + start * CHUNK_RUN.itemsize, count * CHUNK_RUN.itemsize)
        yield np.frombuffer(stored, CHUNK_RUN)


def _check_runs(blocks: Iterable[NDArray[np.void]], nchunks: int, count: int) -> None:
    """Raise `FormatError` if the runs of ``stsc`` do not give `nchunks` chunks `count` samples.

    Nothing is made as long as a number says before the numbers are known to agree.
    """
    if nchunks == 0 and count == 0:
        return
    total, last, samples = 0, 0, 0
    for block in blocks:
        firsts = np.concatenate(([last], block["first"].astype(np.int64)))
        lengths = firsts[1:] - firsts[:-1]
        held = np.concatenate(([samples], block["samples"].astype(np.int64)))
        if (lengths <= 0).any() or firsts[-1] > nchunks or (last == 0 and firsts[1] != 1):
            raise FormatError(
                f"stsc: its runs are not of the {nchunks} chunks there are", field="stsc"
            )
        # All factors have 32 bits, and so have all chunks together: a sum that is too large turns
        # negative, and stays it.
        total += int((lengths * held[:-1]).sum())
        last, samples = int(firsts[-1]), int(held[-1])
    if total + (nchunks + 1 - last) * samples != count:
        raise FormatError(
            f"stsc does not place the {count} samples of stsz in {nchunks} chunks", field="stsc"
        )


def sample_offsets(
    track: TrackTable, sizes: NDArray[Any], runs: NDArray[np.void], chunks: NDArray[Any]
) -> NDArray[Any]:
    """Return where each sample of a track begins.

    Parameters
    ----------
    sizes, runs, chunks : array
        What stands in the tables of `track`.

    Returns
    -------
    array of int, shape (track.count,)
        `chunks` itself where every chunk is one sample, as Benzina's tools write it, else int64. An
        offset of 2**62 or more, which no file reaches, may have become 2**62.

    Raises
    ------
    FormatError
        The tables do not belong together.
    """
    firsts, starts = _chunk_places(track, runs, chunks)
    if firsts is None:
        return starts
    return _in_chunks(track.sample_nbytes or sizes[:-1], track.count, firsts, starts)


def _in_chunks(
    sizes: int | NDArray[Any], count: int, firsts: NDArray[np.int64], starts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return where `count` samples begin, of the sizes of all but the last."""
    # First the bytes from each sample to the next: there may be far more samples than the file has
    # bytes for, and only one array of their number.
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
    """Return which sample is the first of each chunk, and where that begins.

    Chunks without samples are left out. Where every chunk is one sample, or there is none, the
    first is None, and the second `chunks`.
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
    """Where samples of one size begin: computed, as the file may claim any number of them.

    Parameters
    ----------
    track : TrackTable
        A track whose samples have one size.
    runs, chunks : array
        What stands in its tables.

    Raises
    ------
    FormatError
        The tables do not belong together.
    """

    def __init__(self, track: TrackTable, runs: NDArray[np.void], chunks: NDArray[Any]) -> None:
        self._count, self._nbytes = track.count, track.sample_nbytes
        self._firsts, self._starts = _chunk_places(track, runs, chunks)

    def all(self) -> NDArray[Any]:
        """Return the offsets of all samples, as `sample_offsets` does."""
        if self._firsts is None:
            return self._starts
        return _in_chunks(self._nbytes, self._count, self._firsts, self._starts)

    def take(self, indices: Any) -> NDArray[Any]:
        """Return the offsets of some samples, int64 or as they are stored."""
        if self._firsts is None:
            return np.asarray(self._starts[indices])
        chunk = np.searchsorted(self._firsts, indices, "right") - 1
        return np.asarray(self._starts[chunk] + (indices - self._firsts[chunk]) * self._nbytes)
