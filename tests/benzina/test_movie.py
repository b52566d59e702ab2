"""Box structure of a dataset: consistent tables are accepted in any form, others refused."""

import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.benzina.mp4 import boxes
from bloscpack.benzina.mp4.bmff import (
    CHUNK_RUN,
    UINT32,
    UINT64,
    Table,
    children,
    pack_box,
    pack_full_box,
    pack_large_header,
    reader_of,
)
from bloscpack.benzina.mp4.format import pack_track
from bloscpack.benzina.mp4.movie import (
    EvenOffsets,
    Extent,
    Movie,
    TrackTable,
    sample_offsets,
    unpack_movie,
)
from bloscpack.exceptions import FormatError, UnsupportedError

from . import making, vectors


def outline_of(data: bytes) -> Movie:
    return unpack_movie(reader_of(data), len(data))


def track_of(
    runs: list[tuple[int, int, int]], nchunks: int, count: int, sample_nbytes: int = 0
) -> TrackTable:
    return TrackTable(
        "bzna_input",
        b"meta",
        boxes.TrackHeader(0, 0, 0, 0, 0),
        boxes.MediaHeader(0, 0),
        b"mett",
        Extent(0, 0),
        "",
        (0, 0),
        b"",
        Extent(0, 0),
        count,
        sample_nbytes,
        Table(0, 0 if sample_nbytes else count, UINT32),
        Table(0, len(runs), CHUNK_RUN),
        Table(0, nchunks, UINT32),
    )


def offsets_of(
    runs: list[tuple[int, int, int]],
    chunks: list[int],
    sizes: list[int],
    sample_nbytes: int = 0,
    dtype: np.dtype[Any] = UINT32,
) -> list[int]:
    track = track_of(runs, len(chunks), len(sizes), sample_nbytes)
    table = np.array([] if sample_nbytes else sizes, UINT32)
    found = sample_offsets(track, table, np.array(runs, CHUNK_RUN), np.array(chunks, dtype))
    assert len(found) == len(sizes)
    if sample_nbytes:
        even = EvenOffsets(track, np.array(runs, CHUNK_RUN), np.array(chunks, dtype))
        np.testing.assert_array_equal(even.all(), found)
        np.testing.assert_array_equal(even.take(np.arange(len(sizes))), found)
        for index in range(len(sizes)):
            assert even.take(index) == found[index]
    return [int(offset) for offset in found]


def test_offsets_of_samples() -> None:
    assert offsets_of([(1, 1, 1)], [7, 3], [5, 5]) == [7, 3]
    assert offsets_of([(1, 2, 1)], [100, 7], [5, 6, 1, 9]) == [100, 105, 7, 8]
    assert offsets_of([(1, 2, 1), (2, 1, 1)], [100, 7, 50], [5, 6, 1, 9]) == [100, 105, 7, 50]
    assert offsets_of([(1, 3, 1)], [100], [8] * 3, 8) == [100, 108, 116]
    assert offsets_of([(1, 0, 1), (2, 2, 1)], [9, 100], [3, 4]) == [100, 103]
    assert offsets_of([], [], []) == offsets_of([(1, 1, 1)], [], []) == []
    far = [2**64 - 1, 2**63, 2**40]
    assert offsets_of([(1, 1, 1)], far, [1] * 3, dtype=UINT64) == far
    assert offsets_of([(1, 2, 1)], far, [2**32 - 1] * 6, dtype=UINT64) == [
        2**62,
        2**62 + 2**32 - 1,
        2**62,
        2**62 + 2**32 - 1,
        2**40,
        2**40 + 2**32 - 1,
    ]


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(0, 4), st.integers(0, 2**32 - 1)), max_size=6
    ),
    st.booleans(),
)
def test_runs_of_chunks(wanted: list[tuple[int, int, int]], constant: bool) -> None:
    """Compare with a loop over single samples."""
    runs, chunks, sizes, expected = [], [], [], []
    for number, (length, samples, start) in enumerate(wanted):
        runs.append((len(chunks) + 1, samples, 1))
        for _ in range(length):
            chunks.append(start + 1000 * len(chunks))
            at = chunks[-1]
            for _ in range(samples):
                expected.append(at)
                sizes.append(6 if constant else 10 * number + len(sizes))
                at += sizes[-1]
    found = offsets_of(runs, chunks, sizes, 6 if constant else 0, UINT64)
    assert found == expected


WRONG = {
    "no run": [],
    "does not begin with 1": [(2, 1, 1)],
    "does not begin with 1, and the sum is right": [(2, 2, 1), (3, 1, 1)],
    "begins with 0": [(0, 1, 1)],
    "goes back": [(1, 1, 1), (3, 1, 1), (2, 1, 1)],
    "twice": [(1, 1, 1), (1, 1, 1)],
    "beyond the last chunk": [(1, 1, 1), (5, 1, 1)],
    "too few samples": [(1, 0, 1)],
    "too many samples": [(1, 1, 1), (4, 2, 1)],
    "all of 32 bits": [(1, 2**32 - 1, 1)],
    "a sum that turns round": [(1, 2**32 - 1, 1), (2, 2**32 - 1, 1), (3, 1, 1), (4, 5, 1)],
}


@pytest.mark.parametrize("name", WRONG)
def test_runs_that_lie(name: str) -> None:
    with pytest.raises(FormatError, match="stsc") as caught:
        offsets_of(WRONG[name], [0, 8, 16, 24], [8] * 4)
    assert caught.value.field == "stsc"


def packed_track(
    runs: list[tuple[int, int, int]],
    chunks: list[int],
    sizes: list[int],
    **other: bytes,
) -> bytes:
    """Return a track with tables in any form; `other` has boxes to replace or add."""
    stored = np.array(runs, CHUNK_RUN)
    tables = {
        "stsd": boxes.pack_stsd(boxes.pack_mett(b"video/mp4")),
        "stts": boxes.pack_stts(len(sizes), 20),
        "stsz": boxes.pack_stsz(np.array(sizes, np.uint64), constant=True),
        "stsc": pack_full_box(b"stsc", 0, 0, len(runs).to_bytes(4, "big"), stored.tobytes()),
        "stco": boxes.pack_stco(np.array(chunks, np.uint64)),
        **other,
    }
    return pack_track(
        "bzna_input",
        b"meta",
        boxes.TrackHeader(0, 1, 20, 0, 0),
        boxes.MediaHeader(20, 20),
        tuple(tables.values()),
        version=0,
    )


def test_many_runs_are_checked_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bloscpack.benzina.mp4.movie._BLOCK_COUNT", 3)
    runs = [(2 * k + 1, k % 3, 1) for k in range(8)]
    sizes = [9] * (2 * sum(samples for _, samples, _ in runs))
    good = packed_track(runs, list(range(16)), sizes)
    table = outline_of(pack_box(b"moov", good) + pack_box(b"free", bytes(1000)))
    track = table.tracks["bzna_input"]
    assert (track.count, track.runs.count, track.chunks.count) == (len(sizes), 8, 16)
    for index in range(8):
        for field, value in ((0, 0), (0, 17), (1, 3), (1, 2**32 - 1)):
            wrong = [list(run) for run in runs]
            wrong[index][field] = value
            data = packed_track([(a, b, c) for a, b, c in wrong], list(range(16)), sizes)
            with pytest.raises(FormatError, match="stsc"):
                outline_of(pack_box(b"moov", data))


def test_sizes_for_all_are_bounded_by_the_file() -> None:
    """A 4-byte count of samples must not cause an allocation of 32 GiB of offsets."""
    constant = pack_full_box(b"stsz", 0, 0, (8).to_bytes(4, "big"), (2**32 - 1).to_bytes(4, "big"))
    data = pack_box(b"moov", packed_track([(1, 2**32 - 1, 1)], [0], [], stsz=constant))
    with pytest.raises(FormatError, match="4294967295 samples of 8 bytes exceed the file size"):
        outline_of(data)


def test_forms_of_tables() -> None:
    data = pack_box(b"moov", packed_track([(1, 3, 1)], [2**40], [7, 7, 7]))
    track = outline_of(data).tracks["bzna_input"]
    assert (track.count, track.sample_nbytes, track.sizes.count) == (3, 7, 0)
    assert (track.chunks.count, track.chunks.dtype) == (1, UINT64)
    stco = track.chunks.offset
    assert int.from_bytes(data[stco : stco + 8], "big") == 2**40
    assert (track.entry_kind, track.mime, track.frame) == (b"mett", "video/mp4", (0, 0))
    empty = outline_of(pack_box(b"moov", packed_track([], [], []))).tracks["bzna_input"]
    assert (empty.count, empty.chunks.count) == (0, 0)


@pytest.mark.parametrize("missing", ["stsz", "stsc", "stco"])
def test_tables_that_are_missing(missing: str) -> None:
    data = pack_box(b"moov", packed_track([(1, 1, 1)], [0], [1], **{missing: pack_box(b"free")}))
    with pytest.raises(FormatError, match=f"track 'bzna_input': no box '{missing}'"):
        outline_of(data)


def test_tables_that_are_there_in_two_forms() -> None:
    both = packed_track([(1, 1, 1)], [0], [1], co64=boxes.pack_stco(np.array([2**40])))
    with pytest.raises(FormatError, match="two tables of chunk offsets"):
        outline_of(pack_box(b"moov", both))
    compact = packed_track([(1, 1, 1)], [0], [1], stsz=pack_full_box(b"stz2", 0, 0, bytes(9)))
    with pytest.raises(UnsupportedError, match="'stz2'"):
        outline_of(pack_box(b"moov", compact))


def test_samples_in_fragments_are_not_an_empty_dataset() -> None:
    data = pack_box(b"moov", packed_track([], [], []))
    moof = pack_box(b"moof", pack_full_box(b"mfhd", 0, 0, bytes(4)))
    with pytest.raises(UnsupportedError, match=f"'moof' at offset {len(data)}"):
        outline_of(data + moof)


def test_what_a_reader_can_do_without() -> None:
    """Times, sample entry and headers are not needed to locate samples."""
    free = pack_box(b"free")
    data = packed_track([(1, 1, 1)], [0], [1], stts=free, stsd=free)
    data = data.replace(b"tkhd", b"skip").replace(b"mdhd", b"skip")
    track = outline_of(pack_box(b"moov", data)).tracks["bzna_input"]
    assert (track.entry_kind, track.count) == (b"", 1)
    assert track.header == (0, 0, 0, 0, 0)
    none = packed_track([(1, 1, 1)], [0], [1], stsd=pack_full_box(b"stsd", 0, 0, bytes(4)))
    assert outline_of(pack_box(b"moov", none)).tracks["bzna_input"].entry_kind == b""


def changed(data: bytes, kind: bytes, at: int, number: int, *, last: bool = False) -> bytes:
    """Change the 32-bit number at `at` in the payload of the first or last box of a type."""
    place = (data.rindex(kind) if last else data.index(kind)) + 4 + at
    return data[:place] + number.to_bytes(4, "big") + data[place + 4 :]


HUGE = 2**32 - 1
LIES: dict[str, Callable[[bytes], bytes]] = {
    "count of stsz": lambda data: changed(data, b"stsz", 8, HUGE),
    "count of stsz, one more": lambda data: changed(data, b"stsz", 8, 4),
    "count of stco": lambda data: changed(data, b"stco", 4, HUGE),
    "count of stco, one less": lambda data: changed(data, b"stco", 4, 2),
    "count of stsc": lambda data: changed(data, b"stsc", 4, HUGE),
    "count of stsc, none": lambda data: changed(data, b"stsc", 4, 0),
    "samples of a chunk": lambda data: changed(data, b"stsc", 12, HUGE),
    "first chunk": lambda data: changed(data, b"stsc", 8, HUGE),
    "count of stts": lambda data: changed(data, b"stts", 4, HUGE),
    "count of stsd": lambda data: changed(data, b"stsd", 4, HUGE),
    "a size for all": lambda data: changed(data, b"stsz", 4, HUGE),
    "size of moov": lambda data: changed(data, b"moov", -8, HUGE),
    "size of trak": lambda data: changed(data, b"trak", -8, 2**31),
    "size of mdia": lambda data: changed(data, b"mdia", -8, HUGE),
    "size of an entry": lambda data: changed(data, b"mett", -8, 2**20),
    "size of a video entry": lambda data: changed(data, b"hvc1", -8, 8 + 77),
    "size of hvcC": lambda data: changed(data, b"hvcC", -8, 2**20, last=True),
    "trak of size 0": lambda data: changed(data, b"trak", -8, 0),
    "stsz of size 0": lambda data: changed(data, b"stsz", -8, 0),
    "stsc of size 7": lambda data: changed(data, b"stsc", -8, 7),
    "mdat to 2**64 - 1": lambda data: changed(changed(data, b"mdat", 0, HUGE), b"mdat", 4, HUGE),
    "mdat over the file": lambda data: changed(data, b"mdat", 0, 1),
    "mdat of 64 bits, size 15": lambda data: changed(data, b"mdat", 4, 15),
    "version of tkhd": lambda data: changed(data, b"tkhd", 0, HUGE),
    "no moov": lambda data: data.replace(b"moov", b"free"),
    "no stbl": lambda data: data.replace(b"stbl", b"free"),
    "no sizes": lambda data: data.replace(b"stsz", b"free"),
    "two tracks of one name": lambda data: data.replace(b"bzna_target", b"bzna_input\0"),
    "two movies": lambda data: data + data[data.rindex(b"moov") - 4 :],
    "a byte behind": lambda data: data + b"\0",
    "7 bytes behind": lambda data: data + bytes(7),
    "nothing": lambda data: b"",
}


@pytest.mark.parametrize("name", LIES)
def test_lies_are_refused(name: str) -> None:
    data = making.dataset([making.sample(k) for k in range(3)])
    start = data.rindex(b"moov") - 4
    # Samples have tables, too, which do not count here.
    head, moov = data[:start].translate(bytes.maketrans(b"smth", b"____")), data[start:]
    head = head.replace(b"_da_", b"mdat")
    assert len(outline_of(head + moov).tracks) == 4
    tracemalloc.start()
    with pytest.raises(FormatError):
        outline_of(LIES[name](head + moov))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20


def test_nested_boxes() -> None:
    deep = making.nested(b"trak", 20_000)
    good = packed_track([(1, 1, 1)], [0], [1])
    for kind in (b"free", b"udta", b"\0\0\0\0"):
        data = pack_box(b"moov", making.nested(kind, 20_000), good)
        assert list(outline_of(data).tracks) == ["bzna_input"]
    for kind in (b"moov", b"mdia", b"stbl"):
        with pytest.raises(FormatError, match="more than 32 containers"):
            outline_of(pack_box(b"moov", making.nested(kind, 20_000), good))
    inside = packed_track([(1, 1, 1)], [0], [1], more=making.nested(b"minf", 20_000))
    with pytest.raises(FormatError, match="more than 32 containers"):
        outline_of(pack_box(b"moov", inside))
    assert outline_of(pack_box(b"moov", deep)).tracks == {}


def test_other_tracks_are_left_alone() -> None:
    """Only their names are read."""
    damaged = packed_track([], [0], [1]).replace(b"bzna_input", b"sound\0\0\0\0\0")
    damaged = damaged.replace(b"stbl", b"\xff\0\xff\0")
    nameless = pack_box(b"trak"), pack_box(b"trak", pack_box(b"mdia"))
    good = packed_track([(1, 1, 1)], [0], [1])
    movie = outline_of(pack_box(b"moov", damaged, *nameless, good, damaged))
    assert movie.others == ("sound", "", "", "sound")
    assert list(movie.tracks) == ["bzna_input"]
    many = pack_box(b"moov", *[pack_box(b"trak")] * 10_000, good)
    assert outline_of(many).others == ("",) * 10_000


@pytest.mark.parametrize(
    ("stored", "name"),
    [(b"", ""), (b"\0", ""), (b"bzna_\xff", "bzna_\\xff"), (b"bzna_x\0\0", "bzna_x")],
)
def test_names(stored: bytes, name: str) -> None:
    track = packed_track([(1, 1, 1)], [0], [1])
    at = track.index(b"hdlr") - 4
    hdlr = pack_box(b"hdlr", track[at + 8 : at + 32], stored)
    out = bytearray(track[:at] + hdlr + track[at + 32 + len(b"bzna_input\0") :])
    for place in (0, track.index(b"mdia") - 4):
        nbytes = int.from_bytes(out[place : place + 4], "big") + len(stored) - 11
        out[place : place + 4] = nbytes.to_bytes(4, "big")
    movie = outline_of(pack_box(b"moov", bytes(out)))
    assert (*movie.tracks, *movie.others) == (name,)


def check_any(data: bytes) -> Movie | None:
    """Return the box structure, or None; all its extents are inside the data."""
    try:
        movie = outline_of(data)
    except (FormatError, UnsupportedError):
        return None
    for track in movie.tracks.values():
        for table in (track.sizes, track.runs, track.chunks):
            assert 0 <= table.offset <= table.offset + table.nbytes <= len(data)
        for offset, nbytes in (track.entry, track.config):
            assert 0 <= offset <= offset + nbytes <= len(data)
        read = [
            np.frombuffer(data, table.dtype, table.count, table.offset)
            for table in (track.sizes, track.runs, track.chunks)
        ]
        assert len(sample_offsets(track, *read)) == track.count
    return movie


def test_cut_at_every_byte() -> None:
    data = making.dataset([making.sample(0)])
    # All tables follow the media, so that no prefix of the file is a dataset.
    assert [end for end in range(len(data)) if check_any(data[:end])] == []
    assert check_any(data)


@pytest.mark.parametrize("seed", range(3))
def test_random_changes(seed: int) -> None:
    rng = random.Random(seed)
    known = [making.dataset([making.sample(k) for k in range(3)])]
    known += [vectors.data(name) for name in ("base5.bzna", "forms/faststart.bzna")]
    kept = 0
    for _ in range(500):
        data = bytearray(rng.choice(known))
        boxes_of = children(reader_of(data), 0, len(data))
        moov, end = next((box.offset, box.end) for box in boxes_of if box.kind == b"moov")
        for _ in range(rng.randint(2, 6)):
            at = rng.randrange(moov, end - 8)
            kind = rng.randrange(4)
            if kind == 0:
                data[at] = rng.randrange(256)
            elif kind == 1:
                number = rng.choice((0, 1, 7, 8, 2**31, 2**32 - 1))
                data[at : at + 4] = number.to_bytes(4, "big")
            elif kind == 2:
                other = rng.randrange(moov, end - 8)
                data[at : at + 8] = data[other : other + 8]
            else:
                data[at : at + 8] = b"\0\0\0\1free"
        kept += check_any(bytes(data)) is not None
    assert 100 < kept < 400


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    check_any(data)
    check_any(pack_box(b"moov", data))
    check_any(pack_box(b"moov", packed_track([(1, 1, 1)], [0], [1], more=data)))


def test_sizes_near_2_to_the_64() -> None:
    good = pack_box(b"moov", packed_track([(1, 1, 1)], [0], [1]))
    for nbytes in (2**64 - 1, 2**64 - 16, 2**63, len(good) + 33, 15, 0):
        with pytest.raises(FormatError):
            outline_of(pack_large_header(b"free", nbytes) + bytes(16) + good)
    assert outline_of(pack_large_header(b"free", 32) + bytes(16) + good).tracks
