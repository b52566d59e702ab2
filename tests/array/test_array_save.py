"""Saving and loading whole arrays: every dtype, shape and layout; options; atomicity."""

import io
import stat
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.container.reader import Container
from bloscpack.exceptions import NoSuchChecksum, NoSuchCodec, ObjectNumpyArrayRejection
from bloscpack.format.checksum import CHECKSUMS
from bloscpack.format.codec import CODECS, ChunkHeader
from bloscpack.storage.memory import MemorySource

from ..arrayfiles import saved
from ..strategies import AnyArray, arrays, assert_same, fill


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def chunk_headers(data: bytes) -> list[ChunkHeader]:
    with Container.open(MemorySource(data)) as container:
        return [container.fetch(index).header for index in range(container.nchunks)]


@given(
    array=arrays(),
    rows=st.none() | st.integers(1, 10),
    codec=st.sampled_from(CODECS),
    clevel=st.none() | st.integers(0, 9),
    shuffle=st.sampled_from(["auto", "none", "byte", "bit"]),
    checksum=st.sampled_from([row.name for row in CHECKSUMS]) | st.none(),
)
@example(np.zeros((2, 3), "V0"), 1, "lz4", None, "auto", "crc32")
@example(np.zeros(4, np.dtype([])), None, "lz4", None, "auto", "crc32")
@example(np.zeros((3, 0, 2), "f8", order="F"), 1, "lz4", None, "auto", "crc32")
@example(np.zeros((1,) * 32), None, "lz4", None, "auto", "crc32")
def test_load_gives_back_what_was_saved(
    array: AnyArray,
    rows: int | None,
    codec: str,
    clevel: int | None,
    shuffle: str,
    checksum: str | None,
) -> None:
    data = saved(
        array,
        chunks=rows if array.ndim else None,
        codec=codec,
        clevel=clevel,
        shuffle=shuffle,
        checksum=checksum,
    )
    found = bp.load(data)
    assert_same(found, array)
    assert found.flags.writeable
    assert found.flags.owndata or found.base is not None
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    assert found.flags.f_contiguous if fortran else found.flags.c_contiguous
    assert bp.verify(data).ok


@pytest.mark.parametrize("dtype", ["S0", "U0", "V0"])
def test_items_of_zero_bytes(dtype: str) -> None:
    # numpy.empty and ascontiguousarray turn S0 and U0 into S1 and U1.
    strided = np.zeros((3, 2), [("a", dtype), ("b", "i4")])["a"]
    contiguous = np.ndarray((3, 2), dtype)
    for array in (strided, contiguous, contiguous.T, contiguous[:0]):
        assert_same(bp.load(saved(array)), array)
        with bp.open(saved(array)) as stored:
            assert_same(stored[:, 1:], array[:, 1:])


@pytest.mark.parametrize("codec", CODECS)
def test_much_data_in_many_threads(codec: str) -> None:
    array = np.arange(3 << 20, dtype="u4").reshape(-1, 1024)
    datas = {saved(array, codec=codec, clevel=1, nthreads=n) for n in (1, 3)}
    assert len(datas) == 1
    for nthreads in (1, 3):
        assert np.array_equal(bp.load(datas.copy().pop(), nthreads=nthreads), array)


def test_extension_types() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="the package of these types is absent")
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4"):
        array = np.arange(-4, 4).astype(getattr(ml_dtypes, name)).reshape(2, 4)
        assert_same(bp.load(saved(array)), array)
        with bp.open(saved(array, chunks=1)) as stored:
            assert stored.dtype == array.dtype
            assert_same(stored[1, 1:], array[1, 1:])
            assert_same(stored[1, 1], array[1, 1])


@pytest.mark.parametrize(
    "value", [3, 1.5, True, ["text"], [b"bytes"], [1, 2], [[1.0], [2.0]], (), 2j]
)
def test_values_that_numpy_converts(value: Any) -> None:
    assert_same(bp.load(saved(value)), np.asarray(value))


class TestSubclasses:
    """A subclass of ndarray is saved as a plain array of its values."""

    @pytest.mark.parametrize("order", ["C", "F"])
    def test_matrix(self, order: Any) -> None:
        with pytest.warns(PendingDeprecationWarning):
            matrix = np.matrix(np.arange(12.0).reshape(3, 4), copy=False)
        matrix = matrix.copy(order)
        assert_same(bp.load(saved(matrix)), np.asarray(matrix))
        assert_same(bp.load(saved(matrix, chunks=1)), np.asarray(matrix))

    def test_record_array(self) -> None:
        records = np.array([(1, 2.5), (3, 4.5)], "i8,f8").view(np.recarray)
        found = bp.load(saved(records))
        assert type(found) is np.ndarray
        assert found.tolist() == [(1, 2.5), (3, 4.5)]

    def test_memory_map(self, tmp_path: Path) -> None:
        mapped = np.memmap(tmp_path / "m", "i4", "w+", shape=(3, 4))
        mapped[:] = np.arange(12).reshape(3, 4)
        assert_same(bp.load(saved(mapped)), np.asarray(mapped))

    def test_read_only(self) -> None:
        array = np.arange(5)
        array.flags.writeable = False
        assert_same(bp.load(saved(array)), np.arange(5))


class TestObjects:
    @pytest.mark.parametrize(
        "array",
        [
            np.array([None, 1], object),
            np.zeros(2, [("a", object)]),
            np.zeros(0, object),
            np.array("text", object),
        ],
        ids=repr,
    )
    def test_are_refused(self, tmp_path: Path, array: AnyArray) -> None:
        path = tmp_path / "a.blp"
        path.write_bytes(b"old")
        with pytest.raises(ObjectNumpyArrayRejection):
            bp.save(path, array)
        assert path.read_bytes() == b"old"
        assert names(tmp_path) == ["a.blp"]


class TestOptions:
    ARRAY = np.arange(6000, dtype="<i4").reshape(100, 60)

    def test_defaults(self) -> None:
        data = saved(self.ARRAY)
        with Container.open(MemorySource(data)) as container:
            assert container.header.format_version == 3
            assert container.header.checksum.name == "crc32"
            assert container.header.typesize == 4
            assert container.metadata == {
                "dtype": "'<i4'",
                "shape": [100, 60],
                "order": "C",
                "container": "numpy",
            }
            assert list(container.metadata) == ["dtype", "shape", "order", "container"]
            assert len(container.stored.offsets()) == 1
        (header,) = chunk_headers(data)
        assert (header.codec, header.shuffle.name, header.typesize) == ("zstd", "BYTE", 4)

    @pytest.mark.parametrize("rows", [1, 7, 50, 99, 100, np.int64(3)])
    def test_chunks_are_rows(self, rows: int) -> None:
        data = saved(self.ARRAY, chunks=rows)
        assert chunk_headers(data)[0].nbytes == rows * 240
        with bp.open(data) as stored:
            assert stored.nchunks == -(-100 // rows)
            assert stored.chunks == (rows if rows < 100 else 100, 60)
        assert saved(self.ARRAY, chunks=(int(rows), 60)) == data

    def test_chunks_of_a_fortran_array_are_columns(self) -> None:
        array = np.asfortranarray(self.ARRAY)
        with bp.open(saved(array, chunks=7)) as stored:
            assert stored.chunks == (100, 7)
            assert stored.nchunks == 9
            assert_same(stored[:, 10:12], array[:, 10:12])
        assert saved(array, chunks=(100, 7)) == saved(array, chunks=7)

    def test_default_chunks_are_whole_rows_of_a_mebibyte(self) -> None:
        for shape, expected in [
            ((5000, 1000), (262, 1000)),  # 262 rows of 4000 bytes
            ((3, 1 << 20), (1, 1 << 20)),  # a row of 4 MiB is not cut
            ((1 << 20,), (1 << 18,)),
        ]:
            with bp.open(saved(np.zeros(shape, "<i4"), codec="lz4")) as stored:
                assert stored.chunks == expected

    @pytest.mark.parametrize(
        ("chunks", "error"),
        [
            (0, ValueError),
            (-1, ValueError),
            (2**31, ValueError),
            ((7,), ValueError),
            ((7, 0), ValueError),
            ((2**30, 30), ValueError),
            ((7, 60, 1), ValueError),
            ((), ValueError),
            ((0, 60), ValueError),
            (True, TypeError),
            (1.5, TypeError),
            ("7", TypeError),
            ((1.5, 60), TypeError),
        ],
    )
    def test_wrong_chunks(self, chunks: Any, error: type[Exception]) -> None:
        with pytest.raises(error, match=r"chunks|row"):
            saved(self.ARRAY, chunks=chunks)

    def test_array_without_dimensions_has_no_rows(self) -> None:
        with pytest.raises(ValueError, match="chunks does not apply"):
            saved(np.array(1.5), chunks=1)

    @pytest.mark.parametrize(
        ("shuffle", "expected"),
        [("none", 0), ("byte", 1), ("bit", 2), (False, 0), (True, 1), (0, 0), (1, 1), (2, 2)],
    )
    def test_shuffle(self, shuffle: Any, expected: int) -> None:
        assert chunk_headers(saved(self.ARRAY, shuffle=shuffle))[0].shuffle == expected

    def test_automatic_shuffle_leaves_single_bytes_alone(self) -> None:
        data = np.tile(np.arange(100, dtype="u1"), 100)
        assert chunk_headers(saved(data))[0].shuffle == 0

    @pytest.mark.parametrize(
        ("dtype", "typesize"), [("<i2", 2), ("S255", 255), ("S256", 1), ("<U70", 4), ("V300", 1)]
    )
    def test_typesize(self, dtype: str, typesize: int) -> None:
        data = saved(np.zeros(100, dtype))
        assert chunk_headers(data)[0].typesize == typesize

    @pytest.mark.parametrize(
        ("options", "error"),
        [
            ({"codec": "snappy"}, NoSuchCodec),
            ({"codec": "nonsense"}, NoSuchCodec),
            ({"clevel": 10}, ValueError),
            ({"clevel": -1}, ValueError),
            ({"shuffle": "both"}, ValueError),
            ({"shuffle": 3}, ValueError),
            ({"checksum": "crc64"}, NoSuchChecksum),
            ({"attrs": {"a": object()}}, TypeError),
            ({"attrs": {"a": b"bytes"}}, TypeError),
        ],
        ids=range(9),
    )
    def test_wrong_options_leave_the_old_file(
        self, tmp_path: Path, options: dict[str, Any], error: type[Exception]
    ) -> None:
        path = tmp_path / "a.blp"
        path.write_bytes(b"old")
        with pytest.raises(error):
            bp.save(path, self.ARRAY, **options)
        assert path.read_bytes() == b"old"
        assert names(tmp_path) == ["a.blp"]

    def test_no_threads(self) -> None:
        with pytest.raises(ValueError, match="nthreads"):
            saved(self.ARRAY, nthreads=0)
        with pytest.raises(ValueError, match="nthreads"):
            bp.load(saved(np.zeros(3)), nthreads=0)

    @pytest.mark.parametrize("checksum", ["xxh3_64", "xxh3_128"])
    def test_xxh3_makes_version_4(self, checksum: str) -> None:
        data = saved(self.ARRAY, checksum=checksum)
        assert data[4] == 4
        assert_same(bp.load(data), self.ARRAY)

    def test_attributes(self) -> None:
        attrs = {"unit": "m", "list": [1, None, {"a": 1.5}], "": "\u00e4"}
        with bp.open(saved(self.ARRAY, attrs=attrs)) as stored:
            assert stored.attrs == attrs
        with bp.open(saved(self.ARRAY)) as stored:
            assert stored.attrs == {}

    def test_progress(self) -> None:
        seen: list[tuple[int, int]] = []
        saved(self.ARRAY, chunks=30, progress=lambda *done: seen.append(done))
        assert seen == [(7200, 24000), (14400, 24000), (21600, 24000), (24000, 24000)]


class TestLoadOut:
    ARRAY = np.arange(60, dtype="<i4").reshape(3, 20)

    @pytest.mark.parametrize("saved_order", ["C", "F"])
    @pytest.mark.parametrize("out_order", ["C", "F", "strided"])
    def test_receives_the_data(self, saved_order: Any, out_order: str) -> None:
        array = self.ARRAY.copy(saved_order)
        if out_order == "strided":
            out = np.zeros((3, 40), "<i4")[:, ::2]
        else:
            out = np.zeros((3, 20), "<i4", order=out_order)  # type: ignore[call-overload]
        assert bp.load(saved(array), out=out) is out
        assert np.array_equal(out, array)

    @pytest.mark.parametrize(
        "out",
        [
            np.zeros((20, 3), "<i4"),
            np.zeros(60, "<i4"),
            np.zeros((3, 20), "<u4"),
            np.zeros((3, 20), ">i4"),
            np.broadcast_to(np.zeros(20, "<i4"), (3, 20)),
        ],
        ids=str,
    )
    def test_must_fit(self, out: AnyArray) -> None:
        with pytest.raises(ValueError, match="out must be"):
            bp.load(saved(self.ARRAY), out=out)

    @pytest.mark.parametrize("out", [[0] * 60, "out", 5])
    def test_must_be_an_array(self, out: Any) -> None:
        with pytest.raises(TypeError, match="out"):
            bp.load(saved(self.ARRAY), out=out)


class TestFiles:
    ARRAY = fill(np.dtype("<f8"), (50, 20), 1)

    def test_path_text_and_file(self, tmp_path: Path) -> None:
        for where in (tmp_path / "a", str(tmp_path / "b")):
            bp.save(where, self.ARRAY)
            assert_same(bp.load(where), self.ARRAY)
        with (tmp_path / "c").open("wb") as stream:
            bp.save(stream, self.ARRAY)
        with (tmp_path / "c").open("rb") as stream:
            assert_same(bp.load(stream), self.ARRAY)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "c").read_bytes()

    @pytest.mark.parametrize("where", [None, 3, b"path"])
    def test_no_place_to_save_to(self, where: Any) -> None:
        with pytest.raises(TypeError):
            bp.save(where, self.ARRAY)

    def test_failure_leaves_the_old_file(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        bp.save(path, self.ARRAY)
        path.chmod(0o640)

        def fail(done: int, total: int) -> None:
            if done > total // 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            bp.save(path, np.zeros((50, 20)), chunks=5, progress=fail)
        assert_same(bp.load(path), self.ARRAY)
        assert names(tmp_path) == ["a.blp"]
        bp.save(path, np.zeros(3))
        assert_same(bp.load(path), np.zeros(3))
        assert stat.S_IMODE(path.stat().st_mode) == 0o640

    def test_saving_over_the_file_that_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        bp.save(path, self.ARRAY, chunks=7)
        with bp.open(path) as stored:
            bp.save(path, np.asarray(stored)[::-1], chunks=7)
            assert_same(stored[3:9], self.ARRAY[3:9])  # an open handle keeps reading the old file
        assert_same(bp.load(path), self.ARRAY[::-1])

    def test_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            bp.load(tmp_path / "none.blp")

    def test_text_file(self) -> None:
        with pytest.raises(TypeError):
            bp.load(io.StringIO("text"))


class TestWithoutACopy:
    """Arrays that are not contiguous are stored chunk by chunk, as their copies are."""

    @pytest.mark.parametrize("chunks", [1, 3, (2, 2, 3, 2)])
    @pytest.mark.parametrize("axes", [(0, 1, 2, 3), (1, 3, 0, 2), (2, 0, 3, 1)])
    @pytest.mark.parametrize("length", [1, 2, 5])
    def test_bytes_are_those_of_a_copy(
        self, axes: tuple[int, ...], length: int, chunks: Any
    ) -> None:
        base = fill(np.dtype("i2"), (4, 10, 6, 14), 3)
        array = base[::2, 1 : 1 + 2 * length : 2, ::3, 1::2].transpose(axes)
        found, expected = io.BytesIO(), io.BytesIO()
        bp.save(found, array, chunks=chunks)
        bp.save(expected, np.ascontiguousarray(array), chunks=chunks)
        assert found.getvalue() == expected.getvalue()

    @pytest.mark.parametrize("nrows", [40, 41])
    def test_block_sizes_are_chosen_by_the_same_sample(self, nrows: int) -> None:
        base = np.cumsum(fill(np.dtype("i4"), (nrows, 60_000), 3), axis=1, dtype="i4")
        array = base[:, ::2]
        found, expected = io.BytesIO(), io.BytesIO()
        bp.save(found, array)
        bp.save(expected, array.copy())
        assert found.getvalue() == expected.getvalue()

    @pytest.mark.parametrize("shape", [(1000, 4000), (2, 4, 500_000), (1, 4_000_000)])
    def test_memory_holds_a_few_chunks(self, shape: tuple[int, ...], tmp_path: Path) -> None:
        row = np.zeros((1, *shape[1:-1], 2 * shape[-1]), "u1")[..., ::2]
        array = np.broadcast_to(row, (16 * shape[0], *shape[1:]))
        tracemalloc.start()
        try:
            bp.save(tmp_path / "a.blp", array, nthreads=1)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert array.nbytes == 64_000_000
        # A chunk of whole rows has up to 4 MB here, and there are two with their compressed bytes.
        assert peak < 20_000_000
