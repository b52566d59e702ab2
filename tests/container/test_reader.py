"""Reader of a container: whole, by chunk, in part, from many threads, and in a forked process."""

import struct
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.container.reader import Container, _run_starts
from bloscpack.exceptions import (
    BloscpackError,
    ChecksumMismatch,
    CodecError,
    FormatError,
    NotBloscpackError,
    UnsupportedError,
)
from bloscpack.format.checksum import CHECKSUMS, Checksum
from bloscpack.format.codec import CodecParams, encode
from bloscpack.format.metadata import pack_section
from bloscpack.storage.file import open_source

from .. import threadlist
from ..reference.file import NAMES, assemble, take_apart
from ..reference.file import header as plain_header
from .files import CONTENT, CONTENTS, LAST, SIZE, NotingSource, chunks, make, open_bytes

layouts = pytest.mark.parametrize("offsets", [True, False], ids=["offsets", "no offsets"])


@layouts
@pytest.mark.parametrize("checksum", NAMES)
def test_content(checksum: str, offsets: bool) -> None:
    data = make(checksum=checksum, offsets=offsets, spare=3 if offsets else 0)
    with open_bytes(data) as container:
        assert container.read() == CONTENT
        assert (container.nchunks, container.chunk_size, container.last_chunk) == (5, SIZE, LAST)
        assert container.nbytes == len(CONTENT)
        assert container.metadata is None
        assert [bytes(chunk) for chunk in container.iter_chunks()] == CONTENTS
        for index in (4, 0, 2, 2, 3, 1):
            assert container.read_chunk(index) == CONTENTS[index]
            assert container.chunk_nbytes(index) == len(CONTENTS[index])
            out = bytearray(len(CONTENTS[index]))
            container.read_chunk_into(index, out)
            assert out == CONTENTS[index]


@pytest.mark.parametrize("index", [-1, 5, 2**63])
def test_chunk_out_of_range(index: int) -> None:
    with open_bytes(make()) as container, pytest.raises(IndexError, match="the file has 5 chunks"):
        container.read_chunk(index)


@layouts
def test_stored_chunks(offsets: bool) -> None:
    data = make(offsets=offsets)
    parts = take_apart(data)
    with open_bytes(data) as container:
        for index in range(5):
            stored = container.fetch(index)
            assert stored.offset == parts.starts[index]
            assert stored.data == parts.chunks[index]
            assert stored.header.nbytes == len(CONTENTS[index])


@given(
    st.integers(0, 4), st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)), st.integers(1, 255)
)
def test_part_of_a_chunk(index: int, cut: tuple[int, int], typesize: int) -> None:
    start, stop = sorted(min(place, len(CONTENTS[index])) for place in cut)
    if start == stop:
        return
    data = assemble([encode(c, CodecParams("zstd", 3, 1, typesize, 256)) for c in CONTENTS])
    with open_bytes(data) as container:
        for _ in range(3):  # the first read checks the chunk; the next ones read only blocks
            part = bytearray(stop - start)
            container.read_bytes_into(index, start, part)
            assert part == CONTENTS[index][start:stop]


@layouts
def test_metadata(offsets: bool) -> None:
    section = pack_section({"a": [1, 2]}, reserve=10_000)  # more than the first read fetches
    with open_bytes(make(section=section, offsets=offsets)) as container:
        assert container.metadata == {"a": [1, 2]}
        assert container.front.metadata_header is not None
        assert container.front.metadata_header.max_meta_size == 10_000
        assert container.read() == CONTENT
        # A new value each time, as a caller may modify the result.
        assert container.metadata is not container.metadata


@layouts
def test_mixed_codecs_and_typesizes(offsets: bool) -> None:
    params = [
        CodecParams(codec, level, shuffle, typesize)
        for codec, level, shuffle, typesize in [
            ("zstd", 3, 1, 8),
            ("zlib", 9, 2, 1),
            ("blosclz", 0, 0, 255),
            ("lz4hc", 5, 1, 3),
            ("lz4", 1, 0, 2),
        ]
    ]
    mixed = [encode(content, one) for content, one in zip(CONTENTS, params, strict=True)]
    with open_bytes(assemble(mixed, offsets=offsets)) as container:
        assert container.read() == CONTENT


@pytest.mark.parametrize("nbytes", [0, 1, 15, 16, 17, 128])
@layouts
def test_one_chunk(nbytes: int, offsets: bool) -> None:
    content = bytes(range(nbytes))
    with open_bytes(make([content], offsets=offsets)) as container:
        assert container.read() == content


@layouts
def test_trailing_bytes_are_ignored(offsets: bool) -> None:
    old_chunk = chunks()[0][:-1]  # left by an append that shrank the last chunk
    for trailing in (b"x", bytes(16), bytes(1000), old_chunk):
        with open_bytes(make(offsets=offsets, trailing=trailing)) as container:
            assert container.read() == CONTENT


class TestVersions:
    def test_1(self) -> None:
        data = struct.pack("<4sB3sq", b"blpk", 1, bytes(3), 5) + b"".join(chunks())
        with open_bytes(data) as container:
            assert container.read() == CONTENT
            assert (container.chunk_size, container.last_chunk) == (SIZE, LAST)
            assert container.read_chunk(3) == CONTENTS[3]

    def test_2(self) -> None:
        for offsets in (True, False):
            with open_bytes(make(version=2, offsets=offsets)) as container:
                assert container.read() == CONTENT

    def test_2_with_one_chunk_has_no_chunk_size(self) -> None:
        with open_bytes(make(CONTENTS[:1], version=2, chunk_size=0)) as container:
            assert container.read() == CONTENTS[0]

    def test_2_may_have_a_last_chunk_above_the_others(self) -> None:
        contents = [b"a" * 100, b"b" * 100, b"c" * 150]
        with open_bytes(make(contents, version=2)) as container:
            assert container.read() == b"".join(contents)
        with pytest.raises(FormatError, match="last_chunk"):
            open_bytes(make(contents, version=3))

    @pytest.mark.parametrize("row", CHECKSUMS, ids=lambda row: row.name)
    def test_4(self, row: Checksum) -> None:
        with open_bytes(make(checksum="None", offsets=False)) as plain:
            header = plain.header._replace(format_version=4, checksum=row)
        body = b"".join(chunk + row.digest(chunk) for chunk in chunks())
        data = header.pack() + body
        with open_bytes(data) as container:
            assert container.read() == CONTENT
        if row.nbytes:
            with open_bytes(data[:-1] + b"?") as container, pytest.raises(ChecksumMismatch):
                container.read()


class TestUnknownSizes:
    """-1 in the header: a stream of unknown length. Made by hand, as 0.16 never wrote one."""

    @pytest.mark.parametrize("chunk_size", [SIZE, -1])
    @pytest.mark.parametrize("last_chunk", [LAST, -1])
    @pytest.mark.parametrize("nchunks", [5, -1])
    def test_are_found_from_the_chunks(
        self, nchunks: int, last_chunk: int, chunk_size: int
    ) -> None:
        data = make(offsets=False, nchunks=nchunks, last_chunk=last_chunk, chunk_size=chunk_size)
        with open_bytes(data) as container:
            assert container.header.nchunks == nchunks
            assert (container.nchunks, container.nbytes) == (5, len(CONTENT))
            assert (container.chunk_size, container.last_chunk) == (SIZE, LAST)
            assert container.read() == CONTENT
            assert container.read_chunk(4) == CONTENTS[4]

    def test_with_offsets(self) -> None:
        with open_bytes(make(last_chunk=-1, chunk_size=-1)) as container:
            assert container.read() == CONTENT

    def test_no_chunk_at_all(self) -> None:
        data = make([], offsets=False, nchunks=-1, last_chunk=-1, chunk_size=-1)
        with open_bytes(data) as container:
            assert (container.nchunks, container.nbytes) == (0, 0)
            assert container.read() == b""

    def test_chunks_of_different_sizes_are_refused(self) -> None:
        contents = [b"a" * 100, b"b" * 90, b"c" * 100]
        data = make(contents, offsets=False, nchunks=-1, last_chunk=-1, chunk_size=-1)
        with open_bytes(data) as container, pytest.raises(FormatError, match="chunk 1 at offset"):
            container.read()

    def test_anything_behind_is_damage(self) -> None:
        data = make(offsets=False, nchunks=-1, last_chunk=-1, chunk_size=-1, trailing=b"more")
        with pytest.raises(FormatError, match="chunk 5 at offset"):
            open_bytes(data)


class TestNumberOfChunks:
    @layouts
    def test_none(self, offsets: bool) -> None:
        with open_bytes(make([], offsets=offsets)) as container:
            assert container.read() == b""
            assert list(container.iter_chunks()) == []


class TestDamage:
    @layouts
    @pytest.mark.parametrize("index", range(5))
    def test_is_named(self, index: int, offsets: bool) -> None:
        data = bytearray(make(offsets=offsets))
        start = take_apart(bytes(data)).starts[index]
        data[start + 20] ^= 1
        with open_bytes(bytes(data)) as container:
            with pytest.raises(ChecksumMismatch, match=rf"chunk {index}\b") as caught:
                container.read_chunk(index)
            assert (caught.value.index, caught.value.offset) == (index, start)
            assert caught.value.name == "adler32"
            with pytest.raises(ChecksumMismatch, match=rf"chunk {index}\b"):
                container.read()
            # The other chunks can still be read.
            for other in set(range(5)) - {index}:
                assert container.read_chunk(other) == CONTENTS[other]

    def test_file_is_named(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        data = bytearray(make())
        data[-10] ^= 1
        path.write_bytes(data)
        with Container.open(open_source(path)) as container:
            for read in (container.read, lambda: container.read_chunk(4)):
                with pytest.raises(BloscpackError) as caught:
                    read()
                assert str(caught.value).startswith(f"{path}: chunk 4")

    def test_without_a_checksum_the_codec_may_notice(self) -> None:
        data = bytearray(make(checksum="None"))
        data[take_apart(bytes(data)).starts[2] + 24] ^= 0xFF
        with open_bytes(bytes(data)) as container:
            try:
                assert len(container.read_chunk(2)) == SIZE
            except CodecError as err:
                assert "chunk 2 at offset" in str(err)  # noqa: PT017 - no error is right too

    def test_verify_false_skips_the_digest(self) -> None:
        data = make()[:-1] + b"?"
        with open_bytes(data, verify=False) as container:
            assert container.read() == CONTENT
        with open_bytes(data) as container, pytest.raises(ChecksumMismatch):
            container.read()

    def test_chunk_of_another_size(self) -> None:
        contents = [CONTENTS[0], CONTENTS[1][:-4], *CONTENTS[2:]]
        for offsets in (True, False):
            with open_bytes(make(contents, offsets=offsets)) as container:
                with pytest.raises(FormatError, match=r"chunk 1 at offset .* 996 .* 1000"):
                    container.read_chunk(1)
                assert container.read_chunk(2) == CONTENTS[2]

    def test_blosc_2_chunks_are_refused(self) -> None:
        wrong = chunks()
        wrong[1] = b"\x05" + wrong[1][1:]
        for offsets in (True, False):
            with (
                open_bytes(assemble(wrong, offsets=offsets)) as container,
                pytest.raises(UnsupportedError, match="chunk 1 at offset"),
            ):
                container.read_chunk(1)

    def test_promised_memory_is_not_allocated(self) -> None:
        data = plain_header(chunk_size=2**31 - 17, last_chunk=2**31 - 17, nchunks=2**20)
        with pytest.raises(FormatError), open_bytes(data + bytes(100)) as container:
            container.read()
        one = plain_header(chunk_size=2**31 - 17, last_chunk=2**31 - 17)
        with open_bytes(one + chunks()[0]) as container, pytest.raises(FormatError, match="promis"):
            container.read()

    def test_source_is_closed_when_opening_fails(self) -> None:
        for data in (b"", b"no bloscpack file", make()[:40]):
            source = NotingSource(data)
            with pytest.raises(FormatError):
                Container.open(source).read()
            if data[:4] != b"blpk":
                assert source.closed == 1

    def test_another_kind_of_file(self) -> None:
        with pytest.raises(NotBloscpackError):
            open_bytes(b"\x93NUMPY" + bytes(100))


def test_storage_trouble_passes_as_it_is() -> None:
    data = make(section=pack_section([1], reserve=5000), offsets=True)
    reads = 0
    while True:
        source = NotingSource(data, fail_at=reads)
        try:
            with Container.open(source) as container:
                assert container.read() == CONTENT
            break
        except OSError as err:
            assert type(err) is OSError  # noqa: PT017 - the number of reads is not known
        assert source.closed == 1
        reads += 1
    assert reads >= 5


class TestThreads:
    @pytest.mark.parametrize("nthreads", [1, 2, 5])
    def test_number_of_threads_does_not_matter(self, nthreads: int) -> None:
        contents = [bytes([n]) * (1 << 20) for n in range(6)]
        before = threadlist.running()
        with open_bytes(make(contents)) as container:
            assert container.read(nthreads=nthreads) == b"".join(contents)
        assert threadlist.running() <= before


@pytest.mark.parametrize("nthreads", [1, 2, 3])
def test_threads_share_the_last_chunks(nthreads: int) -> None:
    """A thread that takes a whole run at the end would work while the others wait."""
    rows = [bytes([n]) * SIZE for n in range(100)]
    with open_bytes(make(rows)) as container:
        starts = _run_starts(container, nthreads)
        sizes = [stop - start for start, stop in pairwise(starts)]
        assert (starts[0], starts[-1]) == (0, 100)
        assert min(sizes) >= 1
        if nthreads == 1:
            assert len(set(sizes[:-1])) == 1
        else:
            assert sizes == sorted(sizes, reverse=True)
            assert sizes[0] > 1
            assert sizes[-nthreads:] == [1] * nthreads
        out = bytearray(100 * SIZE)
        container.read_into(memoryview(out), nthreads=nthreads)
        assert bytes(out) == b"".join(rows)
