"""Location of chunks: the offset table is used if it is correct, and otherwise ignored."""

from functools import cache
from pathlib import Path

import pytest

from bloscpack.container.chunktable import ChunkTable
from bloscpack.container.reader import Container
from bloscpack.exceptions import BloscpackError, FormatError, TruncatedError
from bloscpack.storage.file import open_source
from bloscpack.storage.memory import MemorySource

from ..reference.file import Parts, take_apart
from .files import CONTENTS, SIZE, NotingSource, make, open_bytes

STARTS = take_apart(make()).starts
END = len(make())
ALIKE = [bytes([n]) * SIZE for n in range(5)]
MANY = [n.to_bytes(2, "little") * 500 for n in range(10_000)]


WRONG_TABLES = {
    "unused": [-1] * 5,
    "zero": [0] * 5,
    "cut short": STARTS[:3],
    "first unused": [-1, *STARTS[1:]],
    "last unused": [*STARTS[:4], -1],
    "first two swapped": [STARTS[1], STARTS[0], *STARTS[2:]],
    "two swapped": [STARTS[0], STARTS[2], STARTS[1], *STARTS[3:]],
    "last two swapped": [*STARTS[:3], STARTS[4], STARTS[3]],
    "reversed": STARTS[::-1],
    "repeated": [STARTS[0], STARTS[1], STARTS[1], *STARTS[3:]],
    "all the first": [STARTS[0]] * 5,
    "all the last": [STARTS[4]] * 5,
    "one byte on": [start + 1 for start in STARTS],
    "one byte back": [start - 1 for start in STARTS],
    "one in the middle of a chunk": [*STARTS[:2], STARTS[2] + 8, *STARTS[3:]],
    "beyond the file": [*STARTS[:2], END + 1, END + 2, END + 3],
    "at the end of the file": [*STARTS[:4], END],
    "just before the end": [*STARTS[:4], END - 3],
    "huge": [*STARTS[:4], 2**63 - 1],
    "negative": [STARTS[0], -(2**63), *STARTS[2:]],
    "inside the header": [STARTS[0], 4, *STARTS[2:]],
    "relative": [start - STARTS[0] for start in STARTS],
    "shifted by one chunk": [*STARTS[1:], END - 20],
    "one left out": [STARTS[0], *STARTS[2:], END - 20],
    "one left out in the middle": [*STARTS[:2], *STARTS[3:], END - 20],
}


@pytest.mark.parametrize("name", WRONG_TABLES)
@pytest.mark.parametrize("checksum", ["adler32", "None"])
@pytest.mark.parametrize("contents", [CONTENTS, ALIKE], ids=["short last chunk", "equal chunks"])
def test_wrong_table_gives_right_data_or_an_error(
    contents: list[bytes], checksum: str, name: str
) -> None:
    right = take_apart(make(contents, checksum=checksum))
    moved = dict(zip(STARTS, right.starts, strict=True))
    table = [moved.get(entry, entry) for entry in WRONG_TABLES[name]]
    data = make(contents, offsets=table, checksum=checksum)
    for order in (range(5), reversed(range(5))):
        with open_bytes(data) as container:
            for index in order:
                try:
                    found = bytes(container.read_chunk(index))
                except BloscpackError as err:
                    assert f"chunk {index}" in str(err)  # noqa: PT017 - data are right too
                    continue
                assert found == contents[index], f"chunk {index} is the content of another"


def test_unused_table_is_done_without() -> None:
    # What an interrupted write leaves; bloscpack 0.16 reads such files.
    with open_bytes(make(offsets=[-1] * 5)) as container:
        assert container.read() == b"".join(CONTENTS)
        assert container.read_chunk(3) == CONTENTS[3]


def test_damage_of_a_chunk_is_reported_as_such() -> None:
    data = bytearray(make())
    data[STARTS[2] + 20] ^= 1
    with open_bytes(bytes(data)) as container, pytest.raises(FormatError, match="adler32"):
        container.read_chunk(2)


def test_damaged_size_spares_the_chunks_behind() -> None:
    # With the table the others are found; without it, all chunks after the damaged one are lost.
    data = bytearray(make())
    data[STARTS[1] + 12] ^= 0x40
    with open_bytes(bytes(data)) as container:
        for index in (0, 2, 3, 4):
            assert container.read_chunk(index) == CONTENTS[index]
        with pytest.raises(FormatError, match="chunk 1 at offset"):
            container.read_chunk(1)


def test_single_chunk_needs_no_table() -> None:
    for entry in (-1, 0, 10**6):
        with open_bytes(make(CONTENTS[:1], offsets=[entry], spare=10)) as container:
            assert container.read() == CONTENTS[0]


def test_table_that_the_file_is_too_short_for() -> None:
    data = make(spare=10**6)[:500]
    with pytest.raises(TruncatedError), open_bytes(data) as container:
        container.read()


def test_huge_table_costs_nothing_to_promise() -> None:
    data = bytearray(make())
    data[24:32] = (2**62).to_bytes(8, "little")
    source = NotingSource(bytes(data))
    with pytest.raises(FormatError), Container.open(source) as container:
        container.read()
    assert sum(nbytes for _, nbytes in source.reads) <= 2 * len(data)


class TestOffsets:
    def test_are_listed(self) -> None:
        with open_bytes(make(spare=20)) as container:
            assert list(container.stored.offsets()) == take_apart(make(spare=20)).starts

    @pytest.mark.parametrize("name", ["unused", "first unused", "reversed", "one byte on"])
    def test_are_checked(self, name: str) -> None:
        with (
            open_bytes(make(offsets=WRONG_TABLES[name])) as container,
            pytest.raises(FormatError, match="offset table"),
        ):
            container.stored.offsets()

    def test_are_not_there(self) -> None:
        with (
            open_bytes(make(offsets=False)) as container,
            pytest.raises(FormatError, match="no offset table"),
        ):
            container.stored.offsets()


@cache  # not at import: every worker of pytest imports this module, and one runs the tests
def file_of_many() -> bytes:
    return make(MANY)


@cache
def parts_of_many() -> Parts:
    return take_apart(file_of_many())


class TestReads:
    """Number and places of reads: with the table, a chunk is read without the others."""

    def extent(self, index: int) -> range:
        starts = [*parts_of_many().starts, len(file_of_many())]
        return range(starts[index], starts[index + 1])

    @pytest.mark.parametrize("index", [0, 1, 5000, 4094, 4095, 4096, 8187, 8188, 9998])
    def test_one_chunk_takes_two_reads_at_most(self, index: int) -> None:
        source = NotingSource(file_of_many())
        container = Container.open(source)
        assert [nbytes for _, nbytes in source.reads] == [4096, 8192]  # front and end of the file
        source.reads.clear()
        assert container.read_chunk(index) == MANY[index]
        assert len(source.reads) <= 2
        table = range(32, parts_of_many().starts[0])
        for offset, nbytes in source.reads:
            extent = self.extent(index) if offset >= table.stop else table
            assert extent.start <= offset <= offset + nbytes <= extent.stop

    def test_last_chunk_reads_nothing_before_it(self) -> None:
        source = NotingSource(file_of_many())
        container = Container.open(source)
        source.reads.clear()
        assert container.read_chunk(9999) == MANY[9999]
        assert all(
            offset + nbytes <= parts_of_many().starts[0] or offset >= self.extent(9999).start
            for offset, nbytes in source.reads
        )

    def test_once_the_table_is_there_a_chunk_is_one_read(self) -> None:
        source = NotingSource(file_of_many())
        container = Container.open(source)
        container.read_chunk(5000)
        source.reads.clear()
        container.read_chunk(5001)
        extent = self.extent(5001)
        assert source.reads == [(extent.start, len(extent))]

    def test_windows_of_the_table_agree(self) -> None:
        container = Container.open(NotingSource(file_of_many()))
        for index in [*range(4080, 4110), *range(8180, 8200), 3, 9999, 0]:
            assert container.read_chunk(index) == MANY[index]

    def test_without_a_table_headers_are_read_once(self) -> None:
        data = make(MANY[:1000], offsets=False)
        source = NotingSource(data)
        container = Container.open(source)
        assert container.read_chunk(900) == MANY[900]
        assert sum(nbytes == 16 for _, nbytes in source.reads) == 900
        source.reads.clear()
        assert container.read_chunk(500) == MANY[500]
        assert len(source.reads) <= 2

    def test_small_file_is_one_read(self) -> None:
        source = NotingSource(make([b"x" * SIZE]))
        Container.open(source).read()
        assert len(source.reads) <= 2


@pytest.mark.parametrize("entry", [2**63 - 1, 2**63 - 20, 2**62])
def test_entry_beyond_any_file(tmp_path: Path, entry: int) -> None:
    # A file instead of memory, as the system refuses to read at such positions.
    path = tmp_path / "far.blp"
    path.write_bytes(make(offsets=[*STARTS[:4], entry]))
    with Container.open(open_source(path)) as container:
        assert [bytes(chunk) for chunk in container.iter_chunks()] == CONTENTS


class OvertakenSource(MemorySource):
    """Source that lets another thread follow the chunks during every other read."""

    table: ChunkTable | None = None
    ahead = 1

    def read_at(self, offset: int, nbytes: int) -> memoryview:
        table, self.table = self.table, None
        if table is not None:
            table.chained(min(self.ahead, 5))
            self.ahead += 2
            self.table = table
        return super().read_at(offset, nbytes)


def test_threads_that_follow_the_chunks_together_find_the_same() -> None:
    source = OvertakenSource(make(offsets=False))
    with Container.open(source) as container:
        table = ChunkTable(source, container.header, container.data_offset, container.data_offset)
        source.table = table
        starts = take_apart(make(offsets=False)).starts
        assert [table.chained(index) for index in range(5)] == starts
        assert source.ahead > 3
