"""Search for intact chunks in damaged bytes; their indices must be proven."""

import random
from typing import Any

import numpy as np
import pytest

from bloscpack.container.foundfront import find_front
from bloscpack.container.salvage import Salvage
from bloscpack.format.codec import CodecParams, encode
from bloscpack.storage.memory import MemorySource

from .. import arrayfiles
from ..arrayfiles import wreck
from ..reference.file import assemble, take_apart
from .files import chunks, make

RANDOM = random.Random(3)
MANY = [RANDOM.randbytes(500) + bytes(500) for _ in range(12)]


def saved(**options: Any) -> bytes:
    content = np.frombuffer(b"".join(MANY), np.uint8).reshape(-1, 100)
    return arrayfiles.saved(content, **{"chunks": 10, **options})


def salvage(data: bytes) -> Salvage:
    source = MemorySource(data)
    return Salvage(source, find_front(source))


def starts_of(data: bytes) -> list[int]:
    return take_apart(data).starts


FILES = {
    "saved": saved(),
    "saved without checksum": saved(checksum=None),
    "table": make(MANY),
    "no table": make(MANY, offsets=False),
    "version 2": make(MANY, version=2),
    "version 1": b"blpk\1\0\0\0" + (12).to_bytes(8, "little") + b"".join(chunks(MANY)),
}


@pytest.mark.parametrize("name", FILES)
def test_all_of_a_sound_file(name: str) -> None:
    found = salvage(FILES[name])
    assert sorted(found.chunks) == list(range(12))
    assert found.unplaced == []
    assert [found.chunks[index].offset for index in range(12)] == starts_of(FILES[name])
    assert (found.nchunks, found.chunk_size, found.nbytes) == (12, 1000, 12_000)


@pytest.mark.parametrize("name", [name for name in FILES if name != "version 1"])
@pytest.mark.parametrize("index", [0, 1, 5, 11])
def test_one_damaged_chunk(name: str, index: int) -> None:
    starts = starts_of(FILES[name])
    data = wreck(FILES[name], (starts[index] + 20, starts[index] + 60))
    assert sorted(salvage(data).chunks) == [one for one in range(12) if one != index]


@pytest.mark.parametrize("name", ["saved", "saved without checksum", "table", "version 2"])
@pytest.mark.parametrize("gone", [[0], [4], [0, 1], [4, 5], [3, 7, 8], [11], [10, 11]])
def test_chunks_that_are_gone_with_their_headers(name: str, gone: list[int]) -> None:
    data = FILES[name]
    starts = [*starts_of(data), len(data) - len(take_apart(data).trailing)]
    data = wreck(data, *((starts[index], starts[index + 1]) for index in gone))
    found = salvage(data)
    assert sorted(found.chunks) == [index for index in range(12) if index not in gone]
    assert found.unplaced == []


@pytest.mark.parametrize("name", ["saved", "saved without checksum"])
def test_two_in_a_row_without_a_table_are_placed_by_the_trailer(name: str) -> None:
    data = FILES[name]
    starts = starts_of(data)
    section = len(take_apart(data).section)
    data = wreck(data, (32 + section, starts[0]), (starts[4], starts[6]))
    assert sorted(salvage(data).chunks) == [0, 1, 2, 3, 6, 7, 8, 9, 10, 11]


def test_without_any_proof_nothing_is_placed() -> None:
    data = FILES["no table"]
    starts = starts_of(data)
    found = salvage(wreck(data, (starts[4], starts[5])))
    assert sorted(found.chunks) == [0, 1, 2, 3]
    assert [one.offset for one in found.unplaced] == starts[5:]


def test_a_damaged_chunk_with_its_size_places_those_behind_it() -> None:
    data = FILES["no table"]
    starts = starts_of(data)
    found = salvage(wreck(data, (starts[4] + 16, starts[5]), (starts[5] + 16, starts[6])))
    assert sorted(found.chunks) == [0, 1, 2, 3, 6, 7, 8, 9, 10, 11]


def test_a_short_last_chunk_does_not_prove_the_end() -> None:
    """The number of chunks in the header may also be wrong."""
    data = make(offsets=False)
    starts = starts_of(data)
    found = salvage(wreck(data, (starts[1], starts[2])))
    assert sorted(found.chunks) == [0]
    assert len(found.unplaced) == 3


def test_the_end_by_the_trailer_places_the_run_before_it() -> None:
    """Without the table and the digests of chunks."""
    data = saved()
    parts = take_apart(data)
    end = len(data) - len(parts.trailing)
    data = wreck(data, (32 + len(parts.section), parts.starts[0]), (end, end + 8 * 12))
    found = salvage(wreck(data, (parts.starts[2], parts.starts[4])))
    assert sorted(found.chunks) == [0, 1, *range(4, 12)]


def test_a_shifted_table_is_not_believed() -> None:
    starts = starts_of(FILES["no table"])
    shift = 8 * 12
    table = [start + shift for start in starts]
    wrong = [table[0], *table[2:], table[-1] + 100]
    data = make(MANY, offsets=wrong)
    found = salvage(wreck(data, (table[4], table[5])))
    assert sorted(found.chunks) == [0, 1, 2, 3]
    assert len(found.unplaced) == 7


def test_chunks_of_a_file_inside_a_damaged_chunk_are_not_taken() -> None:
    """A chunk may hold an uncompressed Bloscpack file, whose own chunks are intact too."""
    inner = make(MANY[:3], offsets=False)
    pieces = [inner.ljust(6000, b"\0"), bytes(6000), bytes(range(250)) * 24]
    outer_chunks = [encode(piece, CodecParams("lz4", 0)) for piece in pieces]
    data = assemble(outer_chunks)
    start = starts_of(data)[0]
    found = salvage(wreck(data, (start, start + 16)))
    assert sorted(found.chunks) == [1, 2]


def test_equal_chunks_stand_for_each_other() -> None:
    data = arrayfiles.saved(np.zeros((50, 100), "u1"), chunks=10)
    starts = starts_of(data)
    found = salvage(wreck(data, (starts[0], starts[2])))
    assert sorted(found.chunks) == [0, 1, 2, 3, 4]


def test_number_of_chunks_in_the_header_is_wrong() -> None:
    data = bytearray(make(MANY, spare=3))
    data[16] = 11
    found = salvage(bytes(data))
    assert sorted(found.chunks) == list(range(12))
    assert found.nchunks == 12


def test_false_headers_take_bounded_work() -> None:
    """Each false header claims the rest of the file, which must be digested to refute it."""
    size = 1 << 20
    fake = bytes([2, 1, 0x33, 1]) + size.to_bytes(4, "little") * 2
    fake += (size + 16).to_bytes(4, "little")
    data = assemble([], nchunks=1, chunk_size=size, last_chunk=size, checksum="sha512")
    data += fake * ((4 << 20) // len(fake))
    found = salvage(data)
    assert found.gave_up
    assert found.chunks == {}


def test_a_table_shifted_to_the_second_chunk_is_not_believed() -> None:
    starts = starts_of(make(MANY))
    data = make(MANY, offsets=[*starts[1:], starts[-1] + 100])
    found = salvage(wreck(data, (starts[0], starts[1])))
    assert found.chunks == {}
    assert len(found.unplaced) == 11


def test_what_the_trailer_contradicts_is_not_whole() -> None:
    """Stored uncompressed and without checksum: only the trailer detects the damage."""
    data = saved(checksum=None, codec="lz4", clevel=0)
    start = starts_of(data)[3]
    found = salvage(wreck(data, (start + 30, start + 31)))
    assert sorted(found.chunks) == [0, 1, 2, *range(4, 12)]


@pytest.mark.parametrize("nchunks", [6, 40, 2**40, 2**62])
def test_a_wrong_number_of_chunks_does_not_place_the_last(nchunks: int) -> None:
    data = bytearray(make(offsets=False))
    data[16:24] = nchunks.to_bytes(8, "little")
    starts = starts_of(make(offsets=False))
    found = salvage(wreck(bytes(data), (starts[1], starts[1] + 16)))
    assert list(found.chunks) == [0]
    assert len(found.unplaced) == 3


def test_a_table_that_nothing_confirms_is_not_believed() -> None:
    starts = starts_of(make(MANY))
    data = make(MANY, offsets=[7, 9, *starts[1:11]])
    found = salvage(wreck(data, (starts[0], starts[1])))
    assert found.chunks == {}
    assert len(found.unplaced) == 11


def test_a_table_that_leaves_out_more_than_there_is_room_for() -> None:
    count = 3000
    shift = 8 * (count - len(MANY))
    starts = [start + shift for start in starts_of(make(MANY))]
    table = [starts[0], *range(5, 1004), *starts[2:]]
    data = make(MANY, offsets=table, nchunks=count)
    found = salvage(wreck(data, (starts[1], starts[2])))
    assert list(found.chunks) == [0]
    assert len(found.unplaced) == 10
