"""Trailer: bytes, states, and its use by the reader."""

import io
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np
import pytest
from xxhash import xxh3_64_digest

import bloscpack as bp
from bloscpack.append import append_fp
from bloscpack.container.chunktable import ChunkTable
from bloscpack.container.front import TAIL_NBYTES, read_trailer
from bloscpack.container.reader import Container
from bloscpack.exceptions import BloscpackError, ChecksumMismatch, FormatError
from bloscpack.format.header import FEATURE_ARRAY_CHUNKS, Header
from bloscpack.format.trailer import (
    MAX_HEAD_NBYTES,
    PAGE_CHUNKS,
    TAIL_SIZE,
    TRAILER_MAGIC,
    pack_trailer,
    unpack_trailer,
)
from bloscpack.original.fileappend import rewrite_section
from bloscpack.storage.memory import MemorySource

from .. import arrayfiles
from ..conftest import Warned
from ..container.files import NotingSource, make, open_bytes
from ..reference.file import take_apart

ARRAY = np.arange(1000.0).reshape(100, 10)
TAIL = Struct("<8sHHIQQQ8s8s8s")


def saved(array: Any = ARRAY, **options: Any) -> bytes:
    return arrayfiles.saved(array, **{"chunks": 10, **options})


def forged(data: bytes, **fields: Any) -> bytes:
    """Return `data` with fields of the tail replaced and its digest corrected."""
    names = ("magic", "version", "size", "head_nbytes", "offset", "nbytes", "nchunks", "z", "head")
    values = dict(zip(names, TAIL.unpack(data[-TAIL_SIZE:]), strict=False)) | fields
    tail = TAIL.pack(*values.values(), bytes(8))[:-8]
    covered = values["nbytes"] - (8 + values["size"]) * values["nchunks"]
    if not TAIL_SIZE <= covered <= len(data):
        return data[:-TAIL_SIZE] + tail + bytes(8)
    body = data[len(data) - covered : -TAIL_SIZE] + tail
    return data[:-TAIL_SIZE] + tail + xxh3_64_digest(body)


class TestBytes:
    def test_layout_of_a_saved_file(self) -> None:
        data = saved()
        parts = take_apart(data)
        head = data[: 32 + len(parts.section)]
        digests = b"".join(map(xxh3_64_digest, parts.chunks))
        entries = np.array(parts.offsets, "<i8").tobytes()
        pages = xxh3_64_digest(entries) + xxh3_64_digest(digests)
        assert parts.trailing.startswith(digests + pages + head + TRAILER_MAGIC)
        tail = TAIL.unpack(parts.trailing[-TAIL_SIZE:])
        offset, nbytes = len(data) - len(parts.trailing), len(parts.trailing)
        assert tail[:7] == (TRAILER_MAGIC, 1, 0, len(head), offset, nbytes, 10)
        assert tail[8] == xxh3_64_digest(head)
        assert tail[9] == xxh3_64_digest(parts.trailing[len(digests) : -8])
        assert len(parts.trailing) == 8 * 10 + 16 + len(head) + TAIL_SIZE

    def test_comes_back(self) -> None:
        data = saved()
        trailer = read_trailer(MemorySource(data))
        assert trailer is not None
        assert trailer.nchunks == 10
        assert trailer.offset + trailer.nbytes == len(data)
        assert Header.unpack(trailer.head) == Header.unpack(data)

    def test_of_many_chunks_says_how_much_it_needs(self) -> None:
        head = make()[:32]
        nchunks = 600 * PAGE_CHUNKS
        offset = 100 << 20
        data = b"".join(pack_trailer(head, range(nchunks), bytes(8 * nchunks), offset))
        trailer, missing = unpack_trailer(data[-TAIL_NBYTES:], offset + len(data))
        assert trailer is None
        assert missing == 16 * 600 + len(head) + TAIL_SIZE
        trailer, missing = unpack_trailer(data[-missing:], offset + len(data))
        assert trailer is not None
        assert (trailer.nchunks, missing) == (nchunks, 0)

    def test_large_metadata_are_not_copied(self) -> None:
        noise = np.random.default_rng(1).bytes(MAX_HEAD_NBYTES).hex()
        data = saved(attrs={"noise": noise})
        with open_bytes(data) as container:
            assert container.front.trailer_state == "valid"
            assert container.front.trailer is not None
            assert container.front.trailer.head == data[:32]

    @pytest.mark.parametrize("nbytes", range(0, TAIL_SIZE, 7))
    def test_a_part_is_not_a_trailer(self, nbytes: int) -> None:
        data = saved()
        assert unpack_trailer(data[len(data) - nbytes :], len(data)) == (None, 0)


class TestReading:
    def test_opening_takes_two_reads_and_a_small_file_one(self) -> None:
        noise = np.random.default_rng(0).normal(size=(100, 100))
        for data, expected in ((saved(), 1), (saved(noise), 2)):
            source = NotingSource(data)
            assert Container.open(source).front.trailer_state == "valid"
            assert len(source.reads) == expected

    def test_opening_does_not_depend_on_the_number_of_chunks(self) -> None:
        source = NotingSource(saved(np.arange(20_000, dtype="i4"), chunks=1))
        assert Container.open(source).front.trailer_state == "valid"
        assert [nbytes for _, nbytes in source.reads] == [4096, TAIL_NBYTES]

    @pytest.mark.sampled(7)
    @pytest.mark.parametrize("options", [{}, {"checksum": None}, {"checksum": "xxh3_64"}])
    @pytest.mark.parametrize("index", [0, 1, 4094, 4095, 4096, 8191, 8192, 8999])
    def test_chunks_at_the_ends_of_pages(self, options: dict[str, Any], index: int) -> None:
        array = np.arange(9000, dtype="i4")
        with open_bytes(saved(array, chunks=1, **options)) as container:
            assert container.read_chunk(index) == array[index : index + 1].tobytes()

    def test_a_shifted_table_of_many_chunks_is_not_believed(self) -> None:
        """Each entry is consistent with its neighbours; only the digest of the page detects it."""
        array = np.arange(9000, dtype="i4")
        data = bytearray(saved(array, chunks=1))
        parts = take_apart(bytes(data))
        table = 32 + len(parts.section)
        data[table + 8 : table + 8 * 8999] = data[table + 16 : table + 8 * 9000]
        with open_bytes(bytes(data)) as container:
            assert container.front.trailer_state == "valid"
            assert container.read_chunk(6000) == array[6000:6001].tobytes()
        assert "offset table" in bp.verify(bytes(data)).damage[0].what

    def test_damage_without_a_checksum_in_the_file(self) -> None:
        data = bytearray(saved(checksum=None, codec="lz4", clevel=0))
        with open_bytes(bytes(data)) as container:
            offset = container.fetch(4).offset
        data[offset + 30] ^= 1  # stored uncompressed, so C-Blosc cannot detect it
        with open_bytes(bytes(data)) as container:
            with pytest.raises(ChecksumMismatch, match="recorded in the trailer") as caught:
                container.read_chunk(4)
            assert caught.value.index == 4
        with open_bytes(bytes(data), verify=False) as container:
            container.read_chunk(4)

    def test_the_functions_of_the_original_write_none(self) -> None:
        with open_bytes(bp.pack_ndarray_to_bytes(ARRAY)) as container:
            assert (container.front.trailer_state, container.front.trailer) == ("absent", None)

    def test_trailing_bytes_are_not_a_trailer(self) -> None:
        with open_bytes(make(trailing=b"x" * 100)) as container:
            assert container.front.trailer_state == "absent"


class TestStates:
    @pytest.mark.parametrize(
        ("field", "offset"),
        [("checksum", 6), ("typesize", 7), ("chunk_size", 8), ("nchunks", 16), ("spare", 24)],
    )
    def test_a_damaged_header_is_refused_with_advice(self, field: str, offset: int) -> None:
        data = bytearray(saved())
        data[offset] ^= 1
        with pytest.raises(BloscpackError, match="recover"):
            bp.open(bytes(data))
        assert field

    def test_replaced_metadata_make_it_stale(self, warned: Warned) -> None:
        data = bytearray(saved(attrs={"unit": "metre"}))
        with open_bytes(bytes(data)) as container:
            old = container.front.metadata_header
            metadata = container.metadata
        assert old is not None
        section = rewrite_section(old, {**metadata, "attrs": {"unit": "mile"}})
        data[32 : 32 + len(section)] = section
        with open_bytes(bytes(data)) as container:
            assert container.front.trailer_state == "stale"
        assert "stale" in warned.text
        report = bp.verify(bytes(data))
        assert (report.ok, report.trailer) == (True, "stale")
        assert bp.load(bytes(data)).tobytes() == ARRAY.tobytes()

    def test_an_append_that_knows_nothing_of_it_makes_it_stale(self, tmp_path: Path) -> None:
        path, rows = tmp_path / "a.blp", tmp_path / "rows"
        for count in (1, 5, 10, 60, 500):
            path.write_bytes(saved(chunks=40))
            new = np.full((count, 10), 7.0)
            rows.write_bytes(new.tobytes())
            bp.append.append(path, rows)
            with bp.open(path) as array:
                assert np.array_equal(array[:], np.concatenate((ARRAY, new)))
            report = bp.verify(path)
            assert report.ok, report
            assert report.trailer in ("stale", "absent")
            assert bp.verify(path, fix=True).trailer == "valid"
            assert bp.verify(path).trailer == "valid"

    def test_an_append_that_makes_an_array_chunk_smaller_makes_it_stale(self) -> None:
        row = np.random.default_rng(1).normal(0, 1000, 1000).astype("<i4")
        file = io.BytesIO()
        bp.save(file, np.tile(row, 10), codec="auto")
        assert bp.open(file.getvalue()).header.features == FEATURE_ARRAY_CHUNKS
        nbytes = len(file.getvalue())
        # Zstandard finds the repeated row, so the new chunk ends before the trailer.
        args = {"typesize": 4, "clevel": 9, "shuffle": 0, "cname": "zstd"}
        append_fp(file, io.BytesIO(row.tobytes()), row.nbytes, args)
        data = file.getvalue()
        assert len(data) == nbytes
        assert np.array_equal(bp.load(data), np.tile(row, 11))
        report = bp.verify(data)
        assert (report.ok, report.trailer) == (True, "stale")

    def test_damage_in_it_leaves_the_data_readable(self) -> None:
        for options in ({}, {"checksum": None}):
            data = saved(**options)
            trailer = read_trailer(MemorySource(data))
            assert trailer is not None
            for position in range(trailer.offset, len(data)):
                changed = bytearray(data)
                changed[position] ^= 0x10
                assert bp.load(bytes(changed)).tobytes() == ARRAY.tobytes()
                report = bp.verify(bytes(changed))
                assert (report.trailer, report.ok) == ("damaged", False), position
                assert report.damage[0].offset is not None
                assert trailer.offset <= report.damage[0].offset < len(data)


class TestFlips:
    """A flipped bit anywhere in a saved file is an error, or changes nothing."""

    @pytest.mark.parametrize("checksum", ["crc32", None, "xxh3_64"])
    def test_never_give_wrong_data(self, checksum: str | None) -> None:
        array = np.arange(120, dtype="<i4").reshape(40, 3)
        data = saved(array, chunks=9, checksum=checksum, attrs={"unit": "m"})
        wrong = []
        for position in range(len(data)):
            changed = bytearray(data)
            changed[position] ^= 1 << position % 8
            if not self._is_right(bytes(changed), array):
                wrong.append(position)
        assert not wrong

    def _is_right(self, data: bytes, array: np.ndarray[Any, Any]) -> bool:
        try:
            whole = bp.load(data)
        except BloscpackError:
            return True
        with bp.open(data) as opened:
            same = opened.attrs == {"unit": "m"} and np.array_equal(opened[3:30:2], array[3:30:2])
        return same and whole.dtype == array.dtype and np.array_equal(whole, array)


class TestLies:
    """Malicious trailers: correct digests, wrong fields."""

    @pytest.mark.parametrize(
        "fields",
        [
            {"nchunks": 2**61},
            {"nchunks": 2**64 - 1},
            {"nchunks": 0},
            {"nchunks": 9},
            {"offset": 0},
            {"offset": 2**64 - 1},
            {"offset": 40},
            {"nbytes": 2**64 - 1},
            {"nbytes": 64},
            {"head_nbytes": 2**32 - 1},
            {"head_nbytes": 0},
            {"head_nbytes": 3},
            {"version": 2},
            {"nchunks": 2**40, "nbytes": 2**43 + 2**32 + 64},
        ],
    )
    def test_are_refused_or_do_nothing(self, fields: dict[str, int]) -> None:
        data = forged(saved(), **fields)
        with suppress(FormatError):
            assert bp.load(data).tobytes() == ARRAY.tobytes()
        assert isinstance(bp.verify(data), bp.Report)
        target = io.BytesIO()
        assert bp.recover(data, target).ok
        assert bp.load(target.getvalue()).tobytes() == ARRAY.tobytes()

    def test_the_number_of_pages_is_bounded(self) -> None:
        nchunks = 1 << 40
        pages = -(-nchunks // PAGE_CHUNKS) * 16
        nbytes = 8 * nchunks + pages + TAIL_SIZE
        tail = TAIL.pack(TRAILER_MAGIC, 1, 0, 0, 2**50, nbytes, nchunks, b"", b"", b"")
        assert unpack_trailer(tail, 2**50 + nbytes) == (None, 0)

    @pytest.mark.parametrize("entry", [0, -1, 2**63 - 1, 40])
    def test_entries_are_bounded_though_the_page_vouches(self, entry: int) -> None:
        data = saved()
        parts = take_apart(data)
        head = data[: 32 + len(parts.section)]
        entries = [*parts.offsets[:3], entry, *parts.offsets[4:]]
        table = np.array(entries, "<i8").tobytes()
        front = head + table + data[len(head) + len(table) : len(data) - len(parts.trailing)]
        digests = b"".join(map(xxh3_64_digest, parts.chunks))
        data = front + b"".join(pack_trailer(head, entries, digests, len(front)))
        with open_bytes(data) as container:
            assert container.front.trailer is not None
            table = ChunkTable(
                container.source,
                container.header,
                len(head),
                container.data_offset,
                container.front.trailer,
            )
            with pytest.raises(FormatError, match="offset table"):
                table.entry(3)
            for index, chunk in enumerate(parts.chunks):
                assert bytes(container.fetch(index).data) == chunk

    def test_of_another_number_of_chunks_is_ignored(self) -> None:
        data = saved()
        parts = take_apart(data)
        head = data[: 32 + len(parts.section)]
        end = len(data) - len(parts.trailing)
        digests = b"".join(map(xxh3_64_digest, parts.chunks[:9]))
        lie = data[:end] + b"".join(pack_trailer(head, parts.offsets[:9], digests, end))
        with open_bytes(lie) as container:
            assert container.front.trailer_state == "damaged"
            assert container.read() == ARRAY.tobytes()

    def test_chunks_must_fit_before_it(self) -> None:
        head = make()[:32]
        for nchunks, is_whole in ((10, True), (11, False)):
            data = b"".join(pack_trailer(head, range(nchunks), bytes(8 * nchunks), 160))
            assert (unpack_trailer(data, 160 + len(data))[0] is not None) == is_whole

    def test_spare_entries_do_not_matter(self) -> None:
        data = bytearray(saved())
        parts = take_apart(bytes(data))
        data[32 + len(parts.section) + 8 * 10] ^= 1
        assert bp.load(bytes(data)).tobytes() == ARRAY.tobytes()
