"""Arrays in an N-dimensional grid of chunks: what is special about them.

The tests of indexing, of selections into arrays and of reading around damage run over grids too.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.append import append
from bloscpack.array.layout import divide, grid_chunks
from bloscpack.exceptions import FormatError, TruncatedError, UnsupportedError
from bloscpack.format.header import FEATURE_GRID, Header
from bloscpack.format.metadata import pack_section

from ..arrayfiles import NotingFile, bytes_read_per_chunk, grid_file, saved
from ..reference.file import take_apart
from ..strategies import AnyArray, assert_same, chunk_shapes, fill, selections

ARRAY = fill(np.dtype("<i4"), (7, 10, 9), 5)


@st.composite
def grids(draw: st.DrawFn) -> tuple[AnyArray, tuple[int, ...]]:
    shape = draw(st.lists(st.integers(1, 6), min_size=2, max_size=4).map(tuple))
    order: Any = draw(st.sampled_from("CF"))
    array = fill(np.dtype(draw(st.sampled_from(["u1", "<i4", "V7"]))), shape, 1).copy(order)
    return array, draw(chunk_shapes(shape))


class TestFormat:
    @given(grids())
    def test_chunks_are_parts_of_the_array(self, case: tuple[AnyArray, tuple[int, ...]]) -> None:
        array, chunks = case
        with bp.open(grid_file(array, chunks)) as a:
            seen = np.zeros(array.shape, int)
            found = list(a.iter_chunks())
            for index, content in enumerate(found):
                region = a.chunk_region(index)
                seen[region] += 1
                assert content == array[region].tobytes("F" if a.is_fortran else "C")
            assert (seen == 1).all()
            assert len(found) == a.nchunks

    def test_header_and_metadata(self) -> None:
        data = grid_file(ARRAY, (2, 4, 9), checksum="md5")
        header = Header.unpack(data)
        assert (header.format_version, header.features) == (4, FEATURE_GRID)
        assert (header.chunk_size, header.last_chunk, header.nchunks) == (-1, 4 * 1 * 2 * 9, 12)
        with bp.open(data) as a:
            assert a.container.metadata["chunks"] == [2, 4, 9]
            assert a.chunks == (2, 4, 9)

    def test_chunks_of_fortran_order_are_in_the_order_of_the_reversed_grid(self) -> None:
        with bp.open(grid_file(ARRAY.copy("F"), (2, 4, 9))) as a:
            assert a.chunks == (2, 4, 9)
            assert a.chunk_region(1) == (slice(2, 4), slice(0, 4), slice(0, 9))
            assert a.chunk_region(4) == (slice(0, 2), slice(4, 8), slice(0, 9))

    @pytest.mark.parametrize("chunks", [3, (3, 10, 9), (3, 12, 9), None])
    def test_whole_rows_make_version_3(self, chunks: Any) -> None:
        data = saved(ARRAY, chunks=chunks)
        assert data[4] == 3
        assert b"chunks" not in take_apart(data).section

    def test_chunks_longer_than_the_array(self) -> None:
        with bp.open(grid_file(ARRAY, (100, 4, 100))) as a:
            assert a.chunks == (100, 4, 9)
            assert_same(a[...], ARRAY)

    @pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 0)])
    @pytest.mark.parametrize("order", ["C", "F"])
    def test_no_items(self, shape: tuple[int, ...], order: Any) -> None:
        array = np.zeros(shape, "<i4", order=order)
        with bp.open(grid_file(array, (2, 3))) as a:
            assert_same(a[...], array)
            assert a.nchunks == 1
            assert a.read_chunk(0) == b""
            assert len(list(a)) == shape[0]
        assert bp.verify(grid_file(array, (2, 3))).ok

    def test_any_number_of_threads_writes_the_same(self) -> None:
        one, many = (grid_file(ARRAY, (2, 4, 5), nthreads=n) for n in (1, 3))
        assert one == many


class TestRegions:
    def test_of_version_3(self, tmp_path: Path) -> None:
        for array, chunks in [(ARRAY, 3), (ARRAY.copy("F"), 2)]:
            bp.save(tmp_path / "a", array, chunks=chunks)
            with bp.open(tmp_path / "a") as a:
                for index in range(a.nchunks):
                    content = array[a.chunk_region(index)].tobytes("F" if a.is_fortran else "C")
                    assert a.read_chunk(index) == content
                with pytest.raises(IndexError, match="chunk index"):
                    a.chunk_region(a.nchunks)

    def test_chunks_that_are_not_parts(self, tmp_path: Path) -> None:
        bp.pack_ndarray_to_file(ARRAY, tmp_path / "a", chunk_size=100)
        with bp.open(tmp_path / "a") as a, pytest.raises(ValueError, match="not parts"):
            a.chunk_region(0)


class TestAuto:
    CUBE = np.zeros((32, 512, 512), "u1")

    @pytest.mark.parametrize(
        ("shape", "access", "expected"),
        [
            ((64, 2048, 2048), None, (64, 128, 128)),
            ((64, 2048, 2048), "tiles", (1, 1024, 1024)),
            ((64, 2048, 2048), "series", (64, 128, 128)),
            ((1000, 100, 100), "series", (1000, 25, 34)),
            ((100, 200, 200), "tiles", None),
            ((100, 4000, 4000, 3), "tiles", (1, 572, 572, 3)),
            ((10**9, 3), None, None),
            ((3, 3, 3), None, None),
        ],
    )
    def test_shape_of_chunks(
        self, shape: tuple[int, ...], access: Any, expected: tuple[int, ...] | None
    ) -> None:
        division = divide((np.dtype("u1"), shape, False), "auto", access)
        assert grid_chunks(division) == expected

    def test_rows_are_those_of_the_default(self, tmp_path: Path) -> None:
        bp.save(tmp_path / "a", self.CUBE)
        bp.save(tmp_path / "b", self.CUBE, chunks="auto", access="rows")
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()

    def test_arguments(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="access must be"):
            bp.save(tmp_path / "a", ARRAY, chunks="auto", access="columns")
        with pytest.raises(ValueError, match="access must be"):
            bp.save(tmp_path / "a", ARRAY, access="columns")
        with pytest.raises(ValueError, match="needs chunks='auto'"):
            bp.save(tmp_path / "a", ARRAY, chunks=3, access="tiles")


class TestReading:
    def test_a_tile_decodes_the_chunks_that_it_touches(self) -> None:
        array = np.frombuffer(np.random.default_rng(0).bytes(4 * 96 * 96), "u1")
        array = array.reshape(4, 96, 96)
        stream = NotingFile(grid_file(array, (2, 32, 32)))
        with bp.open(stream) as a:
            needed = {
                index
                for index in range(a.nchunks)
                if all(
                    one.start < two.stop and two.start < one.stop
                    for one, two in zip(
                        a.chunk_region(index),
                        (slice(1, 2), slice(30, 70), slice(40, 60)),
                        strict=True,
                    )
                )
            }
            stream.reads.clear()
            assert_same(a[1, 30:70, 40:60], array[1, 30:70, 40:60])
        read = bytes_read_per_chunk(stream)
        # The header of the last chunk is read to check the table.
        assert {chunk for chunk, count in read.items() if count > 16} == needed

    @given(grids(), st.data())
    def test_fields(self, case: tuple[AnyArray, tuple[int, ...]], data: st.DataObject) -> None:
        dtype = np.dtype([("a", "<i2"), ("b", "u1"), ("c", "<f4", (2,))])
        array = fill(dtype, case[0].shape, 3)
        with bp.open(grid_file(array, case[1])) as a:
            assert_same(a["b"], array["b"])
            assert_same(a["c"], array["c"])

    @given(grids())
    def test_rows(self, case: tuple[AnyArray, tuple[int, ...]]) -> None:
        array, chunks = case
        stream = NotingFile(grid_file(array, chunks))
        with bp.open(stream) as a:
            for found, row in zip(a, array, strict=True):
                assert_same(found, row)
            for index in range(len(array)):
                assert_same(a[index], array[index])

    @given(grids(), st.data())
    def test_load_into(self, case: tuple[AnyArray, tuple[int, ...]], data: st.DataObject) -> None:
        array, chunks = case
        out = np.zeros(array.shape, array.dtype)
        bp.load(grid_file(array, chunks), out=out)
        assert_same(out, np.ascontiguousarray(array))
        index = data.draw(selections(array.shape))
        with bp.open(grid_file(array, chunks), verify="always", nthreads=3) as a:
            assert_same(a[index], bp.load(grid_file(array, chunks))[index])


@st.composite
def growths(draw: st.DrawFn) -> tuple[AnyArray, tuple[int, ...], list[int]]:
    """Return (array, chunks, numbers of rows after each append)."""
    others = draw(st.lists(st.integers(1, 5), min_size=1, max_size=2).map(tuple))
    array = fill(np.dtype("<u4"), (draw(st.integers(0, 14)), *others), 1)
    chunks = (draw(st.integers(1, 5)), *(draw(st.integers(1, length)) for length in others))
    stops = draw(st.lists(st.integers(0, len(array)), max_size=5).map(sorted))
    return array, chunks, [*stops, len(array)]


class TestGrowth:
    @given(growths(), st.booleans(), st.booleans())
    def test_append_gives_the_chunks_of_save(
        self,
        growth: tuple[AnyArray, tuple[int, ...], list[int]],
        is_fortran: bool,
        flushes: bool,
    ) -> None:
        array, chunks, stops = growth
        if is_fortran:
            chunks = (*chunks[1:], chunks[0])

        def part(start: int, stop: int) -> AnyArray:
            rows = array[start:stop]
            return np.asfortranarray(np.moveaxis(rows, 0, -1)) if is_fortran else rows

        bp.save("a", part(0, stops[0]), chunks=chunks)
        before = bp.open("a")
        assume(before.is_fortran == is_fortran)
        with bp.open("a", "a", nthreads=1) as a:
            for start, stop in pairwise(stops):
                a.append(part(start, stop))
                if flushes:
                    a.flush()
                assert_same(np.asarray(a), part(0, stop))
                assert_same(np.asarray(before), part(0, stops[0]))
        assert_same(np.asarray(before), part(0, stops[0]))
        before.refresh()
        assert_same(np.asarray(before), part(0, len(array)))
        before.close()
        self.check("a", part(0, len(array)), chunks)

    @given(growths(), st.booleans())
    def test_a_writer_gives_the_chunks_of_save(
        self, growth: tuple[AnyArray, tuple[int, ...], list[int]], flushes: bool
    ) -> None:
        array, chunks, stops = growth
        shape = (None, *array.shape[1:])
        with bp.Writer("a", dtype=array.dtype, shape=shape, chunks=chunks, nthreads=1) as w:
            for start, stop in pairwise([0, *stops]):
                w.append(array[start:stop])
                if flushes:
                    w.flush()
        self.check("a", array, chunks)

    @given(growths())
    def test_parts_give_the_bytes_of_save(
        self, growth: tuple[AnyArray, tuple[int, ...], list[int]]
    ) -> None:
        array, chunks, _ = growth
        with bp.parts("a", shape=array.shape, dtype=array.dtype, chunks=chunks) as job:
            records = [job.write(one, array[one:two]) for one, two in job.split(30)]
            if len(records) > 1:
                assert job.missing(records[1:]) == [job.split(30)[0]]
            job.commit(records)
        bp.save("b", array, chunks=chunks)
        assert Path("a").read_bytes() == Path("b").read_bytes()

    def check(self, path: str, array: AnyArray, chunks: tuple[int, ...]) -> None:
        report = bp.verify(path)
        assert (report.ok, report.trailer) == (True, "valid")
        bp.save("expected", array, chunks=chunks)
        with bp.open(path) as a, bp.open("expected") as b:
            assert (a.shape, a.chunks, a.nchunks) == (b.shape, b.chunks, b.nchunks)
            assert list(a.iter_chunks()) == list(b.iter_chunks())

    def test_rows_in_mode_a_after_a_rollback(self) -> None:
        bp.save("a", ARRAY, chunks=(4, 4, 5))
        data = Path("a").read_bytes()
        a = bp.open("a", "a")
        a.append(ARRAY)
        assert_same(a[7:], ARRAY)
        a.__exit__(KeyError)
        assert Path("a").read_bytes() == data

    def test_the_memory_of_a_row_of_the_grid_is_bounded(self) -> None:
        with pytest.raises(ValueError, match="at most"):
            bp.Writer("a", dtype="u1", shape=(None, 2**20), chunks=(2**30, 2**10))

    def test_series_of_unknown_length(self) -> None:
        with bp.Writer("a", dtype="f4", shape=(None, 64, 64), chunks="auto", access="series") as w:
            w.append(np.zeros((3, 64, 64), "f4"))
        with bp.open("a") as a:
            assert a.chunks == (1024, 16, 16)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class TestOriginalFunctions:
    def test_arrays_can_be_read(self, tmp_path: Path) -> None:
        assert_same(bp.unpack_ndarray_from_bytes(grid_file(ARRAY, (2, 4, 5))), ARRAY)

    def test_bytes_are_refused(self, tmp_path: Path) -> None:
        data = grid_file(ARRAY, (2, 4, 5))
        with pytest.raises(UnsupportedError, match=r"form a grid.*bloscpack\.load"):
            bp.unpack_bytes_from_bytes(data)
        (tmp_path / "a").write_bytes(data)
        with pytest.raises(UnsupportedError, match=r"form a grid.*bloscpack\.load"):
            bp.unpack_file_from_file(str(tmp_path / "a"), str(tmp_path / "b"))
        (tmp_path / "c").write_bytes(b"more")
        with pytest.raises(UnsupportedError, match="form a grid"):
            append(str(tmp_path / "a"), str(tmp_path / "c"))
        assert (tmp_path / "a").read_bytes() == data


class TestHostile:
    def changed(self, metadata: dict[str, Any] | None, fields: dict[str, Any]) -> bytes:
        parts = take_apart(grid_file(ARRAY, (2, 4, 5)))
        header = Header.unpack(grid_file(ARRAY, (2, 4, 5)))
        section = parts.section
        if metadata is not None:
            described = {"dtype": "'<i4'", "shape": [7, 10, 9], "order": "C", "container": "numpy"}
            section = pack_section({**described, "chunks": [2, 4, 5], **metadata})
        front = header._replace(**fields).pack() + section
        return front + bytes(8 * (header.nchunks + header.max_app_chunks)) + b"".join(parts.chunks)

    @pytest.mark.parametrize(
        ("metadata", "fields", "match"),
        [
            ({"chunks": [2, 4]}, {}, "chunks is not a list"),
            ({"chunks": None}, {}, "chunks is not a list"),
            ({"chunks": [2, 0, 5]}, {}, "at least 1"),
            ({"chunks": [2, 4, 10]}, {}, "10 for an axis of 9"),
            ({"chunks": [2, 4, 4]}, {}, "the grid has 36 chunks"),
            ({"shape": [2**40, 2**40, 2**40], "chunks": [1, 1, 1]}, {}, "2\\^63"),
            ({"shape": [2**40, 10, 9]}, {}, "nchunks is 24, but the grid has"),
            ({"container": "list"}, {}, "describe an array"),
            ({"dtype": "'<i8'"}, {}, "needs 5040 bytes"),
            (None, {"nchunks": 25}, "nchunks is 25, but the grid has 24"),
            (None, {"chunk_size": 160}, "chunk_size is 160"),
            (None, {"last_chunk": 31}, "last_chunk is 31"),
            (None, {"last_chunk": -1}, "last_chunk is -1"),
            (None, {"nchunks": -1, "max_app_chunks": 0}, "nchunks"),
            (None, {"offsets": False, "max_app_chunks": 0}, "needs metadata and an offset table"),
            (None, {"metadata": False}, "needs metadata"),
        ],
    )
    def test_refused_on_opening(
        self, metadata: dict[str, Any] | None, fields: dict[str, int], match: str
    ) -> None:
        with pytest.raises(FormatError, match=match):
            bp.open(self.changed(metadata, fields))

    def test_more_chunks_than_the_file_can_hold(self) -> None:
        data = self.changed(
            {"shape": [2**40, 1, 1], "chunks": [1, 1, 1]},
            {"nchunks": 2**40, "last_chunk": 4, "max_app_chunks": 0},
        )
        with pytest.raises(TruncatedError, match="offset table"):
            bp.open(data)

    def test_every_cut(self) -> None:
        data = grid_file(ARRAY[:2, :4], (1, 3, 5), codec="lz4")
        for end in range(len(data)):
            try:
                found = bp.load(data[:end])
            except FormatError:
                continue
            assert_same(found, ARRAY[:2, :4].copy())


def test_frame_stores_and_unknown_features_are_refused_as_before() -> None:
    header = Header.unpack(grid_file(ARRAY, (2, 4, 5)))
    with pytest.raises(UnsupportedError, match="features 0x4"):
        Header.unpack(header.pack(), known_features=0)


def test_floats_are_rounded_in_a_grid_as_in_whole_rows() -> None:
    array = np.random.default_rng(0).normal(size=(7, 10, 9)).astype("f4")
    bp.save("a", array, chunks=(2, 4, 5), keepbits=8)
    bp.save("b", array, keepbits=8)
    assert_same(bp.load("a"), bp.load("b"))
    with bp.open("a", "a") as a:
        a.append(array)
        assert_same(a[7:], bp.load("b"))
