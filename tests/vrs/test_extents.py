"""Extents gathered from files: the kernels, and the reads of the files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack._ext import record as kernel
from bloscpack.exceptions import TruncatedError
from bloscpack.storage.file import FileSource
from bloscpack.storage.memory import MemorySource
from bloscpack.storage.protocol import ByteSource
from bloscpack.vrs.read.extents import read_ragged, read_rows
from bloscpack.vrs.read.filesource import ChunkedSource

from ..counting import CountingBytes
from ..reference.gather import gather, gather_ragged

_PLACES = np.arange(3 << 20)
CONTENT = (7 * _PLACES + _PLACES // 251).astype("u1").tobytes()
INT64 = np.iinfo(np.int64)
some_offsets = st.lists(
    st.integers(-10, 300) | st.sampled_from([INT64.min, INT64.max, 1 << 40]), max_size=20
)


def sources(tmp_path: Path) -> list[ByteSource]:
    path = tmp_path / "content"
    path.write_bytes(CONTENT)
    parts = [MemorySource(CONTENT[: 1 << 20]), MemorySource(CONTENT[1 << 20 :])]
    return [FileSource(path), MemorySource(CONTENT), ChunkedSource(parts)]


@given(
    st.binary(max_size=300),
    st.sampled_from([0, 7]),
    some_offsets,
    st.sampled_from([0, 1, 3, 4, 8, 12, 32, 33]),
)
def test_gathering_is_that_of_the_twin(
    content: bytes, start: int, offsets: list[int], nbytes: int
) -> None:
    out = np.full((len(offsets), nbytes), 0xEE, np.uint8)
    bad = kernel.gather(content, start, np.array(offsets, np.int64), out)
    expected = gather(content, start, offsets, nbytes)
    if isinstance(expected, int):
        assert bad == expected
    else:
        assert bad == -1
        assert [row.tobytes() for row in out] == expected


@given(
    st.binary(max_size=300),
    st.sampled_from([0, 7]),
    st.lists(st.tuples(st.integers(-5, 300), st.sampled_from([0, 1, 5, 40])), max_size=20),
)
def test_gathering_ragged_rows_is_that_of_the_twin(
    content: bytes, start: int, rows: list[tuple[int, int]]
) -> None:
    offsets = np.array([offset for offset, _ in rows], np.int64)
    ends = np.cumsum([0, *(length for _, length in rows)])
    out = np.full(int(ends[-1]), 0xEE, np.uint8)
    bad = kernel.gather_ragged(content, start, offsets, ends, out)
    expected = gather_ragged(content, start, offsets.tolist(), np.diff(ends).tolist())
    if isinstance(expected, int):
        assert bad == expected
    else:
        assert bad == -1
        assert out.tobytes() == b"".join(expected)


@pytest.mark.parametrize(
    ("offsets", "ends", "bad"),
    [
        ([0, 0], [0, 4, 9], 1),  # no room for the second
        ([0, 0], [0, 4, 2], 1),  # a length below 0
        ([0], [-1, 2], 0),
        ([INT64.max], [0, 8], 0),
        ([INT64.min], [0, 8], 0),
        ([0], [0, INT64.max], 0),
        ([], [0], -1),
    ],
)
def test_places_that_cannot_be_are_refused(offsets: list[int], ends: list[int], bad: int) -> None:
    view, out = bytes(16), np.zeros(8, np.uint8)
    found = kernel.gather_ragged(
        view, 0, np.array(offsets, np.int64), np.array(ends, np.int64), out
    )
    assert found == bad


def test_as_many_rows_as_offsets() -> None:
    with pytest.raises(ValueError, match="2 rows for 3 offsets"):
        kernel.gather(b"abc", 0, np.zeros(3, np.int64), np.zeros((2, 1), np.uint8))
    zeros = np.zeros(3, np.int64)
    with pytest.raises(ValueError, match="3 ends for 3 offsets"):
        kernel.gather_ragged(b"abc", 0, zeros, zeros, np.zeros(2, np.uint8))


PLACES = [0, 1 << 20, (1 << 20) - 5, 70, 17, 70, 2_000_000, 40_000, 41_000, len(CONTENT) - 30]


@pytest.mark.parametrize("order", ["given", "sorted"])
@pytest.mark.parametrize("nthreads", [1, 3])
def test_rows_of_all_kinds_of_sources(tmp_path: Path, order: str, nthreads: int) -> None:
    places = sorted(PLACES) if order == "sorted" else PLACES
    offsets = np.array(places, np.int64)
    for source in sources(tmp_path):
        rows = read_rows(source, offsets, 30, nthreads=nthreads)
        assert [row.tobytes() for row in rows] == [CONTENT[at : at + 30] for at in places]


@pytest.mark.parametrize("order", ["given", "sorted"])
def test_ragged_rows_of_all_kinds_of_sources(tmp_path: Path, order: str) -> None:
    places = sorted(PLACES) if order == "sorted" else PLACES
    lengths = [0, 30, 7, 0, 1, 30, 300_000, 5, 11, 30]
    if order == "sorted":
        lengths = [length or 3 for length in lengths[:-1]] + [30]
    offsets = np.array(places, np.int64)
    for source in sources(tmp_path):
        ends, data = read_ragged(source, offsets, np.array(lengths, np.int64))
        assert ends.tolist() == [0, *np.cumsum(lengths).tolist()]
        expected = [CONTENT[at : at + n] for at, n in zip(places, lengths, strict=True)]
        assert data.tobytes() == b"".join(expected)


def test_nothing_is_read_for_nothing() -> None:
    source = CountingBytes(CONTENT)
    none = np.empty(0, np.int64)
    assert read_rows(source, none, 8).shape == (0, 8)
    assert read_rows(source, np.zeros(3, np.int64), 0).shape == (3, 0)
    ends, data = read_ragged(source, np.zeros(3, np.int64), np.zeros(3, np.int64))
    assert ends.tolist() == [0, 0, 0, 0]
    assert not len(data)
    assert not source.reads


def test_neighbours_are_read_together_and_far_ones_are_not() -> None:
    source = CountingBytes(CONTENT)
    read_rows(source, np.arange(0, 100_000, 100, dtype=np.int64), 8)
    assert source.reads == [(0, 99_908)]
    source.reads.clear()
    read_rows(source, np.array([0, 100, 50_000], np.int64), 8)
    assert source.reads == [(0, 108), (50_000, 8)]
    source.reads.clear()
    read_rows(source, np.arange(0, 3_000_000, 100, dtype=np.int64), 8)
    assert len(source.reads) == 12
    assert max(nbytes for _, nbytes in source.reads) <= (1 << 18) + 8
    assert sum(nbytes for _, nbytes in source.reads) < 3_000_000


@pytest.mark.parametrize("places", [[0, 100, 2 << 20], [0, 100, 200], [200]])
def test_a_file_that_shrinks_is_an_error(tmp_path: Path, places: list[int]) -> None:
    path = tmp_path / "content"
    path.write_bytes(CONTENT)
    source = FileSource(path)
    with path.open("r+b") as stream:
        stream.truncate(205)
    offsets, lengths = np.array(places, np.int64), np.full(len(places), 10)
    message = rf"10 bytes at byte {places[-1]}: found only \d"
    with pytest.raises(TruncatedError, match=message) as info:
        read_rows(source, offsets, 10)
    assert info.value.path == str(path)
    with pytest.raises(TruncatedError, match=message):
        read_ragged(source, offsets, lengths)
    with pytest.raises(TruncatedError, match=message):
        read_ragged(source, offsets[::-1].copy(), lengths)


def test_reading_into_ends_where_the_source_does(tmp_path: Path) -> None:
    for source in sources(tmp_path):
        room = bytearray(10)
        assert source.read_into(len(CONTENT) - 4, memoryview(room)) == 4
        assert room[:4] == CONTENT[-4:]
        assert source.read_into(len(CONTENT) + 4, memoryview(room)) == 0
        across: Any = bytearray(100)
        assert source.read_into((1 << 20) - 50, memoryview(across)) == 100
        assert across == CONTENT[(1 << 20) - 50 :][:100]


def test_a_closed_source_says_so(tmp_path: Path) -> None:
    for source in sources(tmp_path):
        source.close()
        if not isinstance(source, MemorySource):
            with pytest.raises(ValueError, match="closed"):
                read_rows(source, np.zeros(2, np.int64), 8)
