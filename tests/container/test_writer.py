"""Writer of a container: exact bytes, for any number of threads, and refused arguments."""

import io
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.container.writer import Chunking, build_header, write_container, write_stream
from bloscpack.exceptions import FormatError
from bloscpack.format.checksum import CHECKSUMS, Checksum, checksum_by_name
from bloscpack.format.codec import CodecParams
from bloscpack.format.header import Header
from bloscpack.format.metadata import pack_section
from bloscpack.storage.memory import MemorySink
from bloscpack.storage.sink import StreamSink

from ..reference.file import take_apart
from .files import CONTENT, CONTENTS, LAST, SIZE, chunks, make, open_bytes

PARAMS = CodecParams("lz4", 5, typesize=4)
CHUNKING = Chunking(5, SIZE, LAST)


def header(
    chunking: Chunking = CHUNKING,
    *,
    checksum: str = "adler32",
    offsets: bool = True,
    spare: int = 0,
) -> Header:
    return build_header(
        chunking,
        checksum=checksum_by_name(checksum),
        typesize=8,
        offsets=offsets,
        max_app_chunks=spare,
        meta_checksum=None,
    )


class TestChunking:
    @given(st.integers(0, 10**6), st.integers(1, 10**6))
    def test_covers_the_content(self, nbytes: int, chunk_size: int) -> None:
        chunking = Chunking.of(nbytes, chunk_size)
        assert chunking.nbytes == nbytes
        assert chunking.nchunks >= 1
        assert chunking.chunk_size == chunk_size
        assert 0 <= chunking.last_chunk <= chunk_size
        assert chunking.last_chunk > 0 or nbytes == 0
        assert chunking.nchunks == max(1, -(-nbytes // chunk_size))

    @given(st.binary(max_size=300), st.integers(1, 320))
    def test_cut(self, content: bytes, chunk_size: int) -> None:
        chunking = Chunking.of(len(content), chunk_size)
        pieces = list(chunking.cut(memoryview(content)))
        assert b"".join(pieces) == content
        assert [len(piece) for piece in pieces] == [chunk_size] * (chunking.nchunks - 1) + [
            chunking.last_chunk
        ]

    def test_empty_content_is_one_empty_chunk(self) -> None:
        for size in (0, 1, 1000):
            assert Chunking.of(0, size) == Chunking(1, size, 0)
            assert [bytes(one) for one in Chunking.of(0, size).cut(memoryview(b""))] == [b""]


@pytest.mark.parametrize("offsets", [True, False])
@pytest.mark.parametrize("nthreads", [1, 2, 7])
@pytest.mark.parametrize("checksum", ["None", "adler32", "crc32", "sha256"])
def test_bytes_are_those_put_together_by_hand(checksum: str, nthreads: int, offsets: bool) -> None:
    spare = 3 if offsets else 0
    sink = MemorySink()
    write_container(
        sink,
        header(checksum=checksum, offsets=offsets, spare=spare),
        b"",
        CONTENTS,
        PARAMS,
        nthreads=nthreads,
    )
    assert sink.getvalue() == make(checksum=checksum, offsets=offsets, spare=spare)


@pytest.mark.parametrize("nthreads", [1, 4])
@pytest.mark.parametrize("offsets", [True, False])
def test_stream_of_unknown_length_is_the_same_file(offsets: bool, nthreads: int) -> None:
    section = pack_section({"a": 1})

    def start(nbytes: int) -> tuple[Header, bytes]:
        assert nbytes == len(CONTENT)
        final = header(offsets=offsets, spare=2 if offsets else 0)
        return final._replace(metadata=True), section

    sink = MemorySink()
    adler = checksum_by_name("adler32")
    write_stream(sink, start, adler, iter(CONTENTS), PARAMS, nthreads=nthreads)
    assert sink.getvalue() == make(section=section, offsets=offsets, spare=2 if offsets else 0)


@pytest.mark.parametrize("row", CHECKSUMS, ids=lambda row: row.name)
def test_version_follows_from_the_checksum(row: Checksum) -> None:
    sink = MemorySink()
    write_container(sink, header(checksum=row.name), b"", CONTENTS, PARAMS)
    data = sink.getvalue()
    assert data[4] == (4 if row.id > 8 else 3)
    with open_bytes(data) as container:
        assert container.header.checksum is row
        assert container.read() == CONTENT
        assert container.stored.offsets() == tuple(container.fetch(n).offset for n in range(5))


def test_spare_offsets_need_a_table() -> None:
    assert header(offsets=False, spare=9).max_app_chunks == 0
    assert header(offsets=True, spare=9).max_app_chunks == 9


def test_unused_offsets_are_minus_one() -> None:
    sink = MemorySink()
    write_container(sink, header(spare=300_000), b"", CONTENTS, PARAMS)
    data = sink.getvalue()
    parts = take_apart(data)
    assert parts.offsets == parts.starts
    assert data[32 + 40 : parts.starts[0]] == b"\xff" * 8 * 300_000


@pytest.mark.parametrize("nthreads", [1, 3])
@pytest.mark.parametrize(
    "contents", [CONTENTS[:4], [*CONTENTS, b"x"], [*CONTENTS[:4], CONTENTS[4][:-1]], []]
)
def test_content_that_is_not_what_was_promised(contents: list[bytes], nthreads: int) -> None:
    with pytest.raises(ValueError, match="changed while it was being packed"):
        write_container(MemorySink(), header(), b"", contents, PARAMS, nthreads=nthreads)


def test_header_that_cannot_be_is_refused() -> None:
    with pytest.raises(FormatError, match="chunk_size"):
        header(Chunking(1, 2**31 - 1, 0))
    with pytest.raises(FormatError, match="nchunks"):
        header(Chunking(2**63 - 1, 10, 10), spare=1)


@pytest.mark.parametrize("nthreads", [1, 3])
def test_progress(nthreads: int) -> None:
    seen: list[tuple[int, int]] = []
    total = len(CONTENT)

    def note(done: int, of: int) -> None:
        seen.append((done, of))

    write_container(MemorySink(), header(), b"", CONTENTS, PARAMS, nthreads=nthreads, progress=note)
    assert seen == [(min(SIZE * n, total), total) for n in range(1, 6)]
    seen.clear()
    write_stream(
        MemorySink(),
        lambda _: (header(), b""),
        checksum_by_name("adler32"),
        CONTENTS,
        PARAMS,
        nthreads=nthreads,
        progress=note,
    )
    assert [done for done, _ in seen] == [min(SIZE * n, total) for n in range(1, 6)]
    assert {of for _, of in seen} == {-1}


class FailingStream(io.BytesIO):
    def write(self, data: object) -> int:  # type: ignore[override]
        raise OSError(28, "no space left")


def test_storage_trouble_passes_as_it_is() -> None:
    sink = StreamSink(FailingStream())
    write_container(sink, header(), b"", CONTENTS, PARAMS)
    with pytest.raises(OSError, match="no space left"):
        sink.commit()
    sink.abort()


def test_failing_content_passes_as_it_is() -> None:
    def contents() -> Iterator[bytes]:
        yield CONTENTS[0]
        raise OSError(5, "disk trouble")

    for nthreads in (1, 3):
        with pytest.raises(OSError, match="disk trouble"):
            write_container(MemorySink(), header(), b"", contents(), PARAMS, nthreads=nthreads)
        with pytest.raises(OSError, match="disk trouble"):
            write_stream(
                MemorySink(),
                lambda _: (header(), b""),
                checksum_by_name("None"),
                contents(),
                PARAMS,
                nthreads=nthreads,
            )


@pytest.mark.parametrize("nthreads", [1, 2])
def test_content_is_not_held_in_memory(nthreads: int) -> None:
    nchunks, size = 64, 1 << 20
    chunking = Chunking(nchunks, size, size)

    def contents() -> Iterator[bytes]:
        for number in range(nchunks):
            yield bytes([number]) * size

    tracemalloc.start()
    try:
        write_container(MemorySink(), header(chunking), b"", contents(), PARAMS, nthreads=nthreads)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@given(
    contents=st.lists(st.binary(min_size=24, max_size=24), min_size=1, max_size=8),
    last=st.integers(1, 24),
    row=st.sampled_from(CHECKSUMS),
    offsets=st.booleans(),
    spare=st.integers(0, 20),
    metadata=st.none() | st.dictionaries(st.text(max_size=5), st.integers()),
    nthreads=st.integers(1, 3),
)
def test_reading_gives_back_what_was_written(
    contents: list[bytes],
    last: int,
    row: Checksum,
    offsets: bool,
    spare: int,
    metadata: object,
    nthreads: int,
) -> None:
    contents[-1] = contents[-1][:last]
    section = b"" if metadata is None else pack_section(metadata)
    final = build_header(
        Chunking(len(contents), 24, last),
        checksum=row,
        typesize=3,
        offsets=offsets,
        max_app_chunks=spare,
        meta_checksum=None if metadata is None else checksum_by_name("adler32"),
    )
    sink = MemorySink()
    write_container(sink, final, section, contents, PARAMS, nthreads=nthreads)
    with open_bytes(sink.getvalue()) as container:
        assert container.header == final
        assert container.metadata == metadata
        assert container.read() == b"".join(contents)
        if offsets:
            assert list(container.stored.offsets()) == [
                container.fetch(n).offset for n in range(len(contents))
            ]


def test_chunks_are_independent_of_their_neighbours() -> None:
    assert take_apart(make()).chunks == chunks()
