"""Batches of pieces: number of reads, and decoded content."""

from pathlib import Path

import pytest

from bloscpack.exceptions import TruncatedError
from bloscpack.storage.batch import Piece, fetch
from bloscpack.storage.coalescing import LOCAL
from bloscpack.storage.file import FileSource
from bloscpack.storage.memory import MemorySource
from bloscpack.storage.protocol import ByteSource

from ..counting import CountingBytes

CONTENT = bytes(range(256)) * 8192  # 2 MiB


@pytest.fixture(params=["file", "memory"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> ByteSource:
    if request.param == "memory":
        return MemorySource(CONTENT)
    path = tmp_path / "content"
    path.write_bytes(CONTENT)
    return FileSource(path)


def taken(source: ByteSource, places: list[tuple[int, int]], nthreads: int = 1) -> list[bytes]:
    """Return the content of the pieces at `places`."""
    found = [b""] * len(places)

    def keep(number: int, view: memoryview) -> None:
        found[number] = bytes(view)

    pieces = [
        Piece(source, offset, nbytes, lambda view, number=number: keep(number, view))
        for number, (offset, nbytes) in enumerate(places)
    ]
    fetch(pieces, nthreads=nthreads, nbytes=64 << 20)
    return found


@pytest.mark.parametrize("nthreads", [1, 3])
def test_pieces_in_any_order_repeated_and_overlapping(source: ByteSource, nthreads: int) -> None:
    places = [(900_000, 300_000), (5, 10), (0, 0), (8, 4), (5, 10), (700_001, 400_000), (1, 70_000)]
    found = taken(source, places, nthreads)
    assert found == [CONTENT[offset : offset + nbytes] for offset, nbytes in places]


def test_neighbours_are_read_at_once() -> None:
    source = CountingBytes(CONTENT)
    taken(source, [(1000 * i, 900) for i in range(20)][::-1])
    assert source.reads == [(0, 19 * 1000 + 900)]


def test_gaps_and_long_runs_are_not() -> None:
    source = CountingBytes(CONTENT)
    gap = LOCAL.max_gap + 1
    taken(source, [(0, 10), (10 + gap, 10)])
    assert source.reads == [(0, 10), (10 + gap, 10)]
    source.reads.clear()
    half = LOCAL.max_nbytes // 2
    taken(source, [(0, half), (half, half), (2 * half, half), (3 * half, 3 * half)])
    assert source.reads == [(0, 2 * half), (2 * half, half), (3 * half, 3 * half)]


def test_sources_are_read_apart() -> None:
    sources = [CountingBytes(CONTENT), CountingBytes(CONTENT[::-1])]
    found: list[bytes] = []
    fetch(
        [
            Piece(sources[i % 2], 10 * i, 10, lambda view: found.append(bytes(view)))
            for i in range(4)
        ],
        nthreads=1,
        nbytes=0,
    )
    assert [source.reads for source in sources] == [[(0, 30)], [(10, 30)]]


def test_a_short_source_is_named(source: ByteSource) -> None:
    with pytest.raises(TruncatedError, match="found 6") as caught:
        taken(source, [(0, 10), (len(CONTENT) - 6, 7)])
    assert caught.value.path == source.name


def test_a_size_that_lies_costs_no_memory(source: ByteSource) -> None:
    with pytest.raises(TruncatedError):
        taken(source, [(10, 1 << 50)])
    with pytest.raises(TruncatedError):
        taken(source, [(1 << 50, 1 << 50)])


def test_the_error_of_the_first_piece_is_raised(source: ByteSource) -> None:
    def fail(view: memoryview) -> None:
        raise ValueError(f"first byte {view[0]}")

    pieces = [Piece(source, 1000 * i, 10, fail) for i in range(8)]
    with pytest.raises(ValueError, match="first byte 0"):
        fetch(pieces[::-1], nthreads=1, nbytes=0)


def test_pieces_that_are_read_straight_to_their_place(
    source: ByteSource,
) -> None:
    targets = [bytearray(300_000), bytearray(10), bytearray(500)]
    places = [1000, 1_000_000, 7]
    given = []
    pieces = [
        Piece(source, offset, len(target), lambda view: given.append(len(view)), memoryview(target))
        for offset, target in zip(places, targets, strict=True)
    ]
    other = Piece(source, 999_950, 50, lambda view: given.append(bytes(view)))
    fetch([*pieces, other], nthreads=1, nbytes=1)
    for offset, target in zip(places, targets, strict=True):
        assert target == CONTENT[offset : offset + len(target)]
    assert given == [500, 300_000, CONTENT[999_950:1_000_000], 10]


def test_a_piece_read_straight_past_the_end(source: ByteSource) -> None:
    target = bytearray(100)
    piece = Piece(source, len(CONTENT) - 60, 100, lambda view: None, memoryview(target))
    with pytest.raises(TruncatedError, match="100 bytes expected at offset 2097092; found 60"):
        fetch([piece], nthreads=1, nbytes=1)
