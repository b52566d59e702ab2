"""Statistics of chunks: they are those of the items, however the file was written."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_digest

import bloscpack as bp
from bloscpack._ext import statistics as kernel
from bloscpack.container.front import read_trailer
from bloscpack.exceptions import FormatError
from bloscpack.format.statistics import Statistics
from bloscpack.storage.memory import MemorySource

from .. import arrayfiles
from ..conftest import needs_exchange
from ..format.test_trailer import forged
from ..reference.array_reader import read_file
from ..reference.chunk_statistics import record_of
from ..servers import FileServer, running

AnyArray = np.ndarray[Any, np.dtype[Any]]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [
    *map(np.dtype, ["?", "i1", "<i2", ">i2", "i4", ">i8", "i8", "u1", ">u2", "u4", "u8"]),
    *map(np.dtype, ["f2", ">f2", "f4", ">f4", "f8", ">f8", "M8[ns]", ">M8[D]", "m8[us]", "m8"]),
    BFLOAT16,
]
CHUNKS: list[Any] = [None, 1, 3, 1000, (2, 2), (3, 1), (5, 100)]


def items_of(dtype: np.dtype[Any], shape: tuple[int, ...], seed: int, order: str) -> AnyArray:
    """Return items of all bits, among which NaN, NaT, zeros and infinities are usual."""
    rng = np.random.default_rng(seed)
    size = int(np.prod(shape))
    if dtype.kind == "b":
        flat = rng.integers(0, 2, size).astype(dtype)
    else:
        flat = np.frombuffer(rng.bytes(size * dtype.itemsize), dtype).copy()
    special: Any = [0, 1]
    if dtype.kind in "fV":
        special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5]
    elif dtype.kind in "mM":
        special = np.array([-(2**63), 0, -1, 2**63 - 1]).view(dtype.newbyteorder("="))
    at = rng.random(size) < rng.choice([0, 0.3, 1])
    flat[at] = np.array(special).astype(dtype)[rng.integers(0, len(special), at.sum())]
    return flat.reshape(shape, order=order)  # type: ignore[call-overload, no-any-return]


def saved(array: Any, **options: Any) -> bytes:
    return arrayfiles.saved(array, stats=True, **options)


def check(data: Any, array: AnyArray) -> None:
    """Check that a file has the statistics of its items, and that all readers accept it."""
    report = bp.verify(data)
    assert report.ok, report
    assert report.trailer == "valid"
    source = data if isinstance(data, bytes) else Path(data).read_bytes()
    trailer = read_trailer(MemorySource(source))
    assert trailer is not None
    offset, nbytes = trailer.statistics_extent()
    with bp.open(data) as a:
        assert a[...].tobytes() == array.tobytes()
        contents = [np.frombuffer(content, array.dtype) for content in a.iter_chunks()]
        expected = b"".join(map(record_of, contents))
        found = source[offset : offset + nbytes]
        kind = array.dtype.kind
        columns = [("l", "<f8"), ("h", "<f8"), ("n", "<u8"), ("s", "<f8")]
        if kind in "fV":  # whose zeros have either sign
            for name, _ in columns:
                one, two = (np.frombuffer(each, columns)[name] for each in (found, expected))
                np.testing.assert_array_equal(one, two)
        else:
            assert found == expected
        records = a.stats
        assert records is not None
        assert records.size == (a.nchunks if a.size else 0) or a.chunks is None
        if a.chunks is not None and a.size:
            assert records.shape == tuple(
                -(-n // step) for n, step in zip(a.shape, a.chunks, strict=True)
            )
            for index in np.ndindex(records.shape):
                place = [slice(i * n, (i + 1) * n) for i, n in zip(index, a.chunks, strict=True)]
                own = np.frombuffer(record_of(array[tuple(place)].ravel()), "<u8")
                assert records[index]["nan"] == own[2]
        check_extremes(a, array)


@np.errstate(invalid="ignore")  # numpy warns of signalling NaN in some types
def check_extremes(a: Any, array: AnyArray) -> None:
    for name in ("min", "max"):
        if not array.size:
            with pytest.raises(ValueError, match="zero-size"):
                getattr(a, name)()
            continue
        found, expected = getattr(a, name)(), getattr(array, name)()
        assert type(found) is type(expected)
        own = "f8" if array.dtype == BFLOAT16 else array.dtype
        np.testing.assert_array_equal(np.array(found, own), np.array(expected, own))


@given(st.data())
def test_statistics_are_those_of_the_items(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(DTYPES))
    shape = data.draw(st.sampled_from([(), (0,), (1,), (37,), (5, 0), (7, 5), (0, 3), (4, 5, 3)]))
    chunks = data.draw(st.sampled_from(CHUNKS))
    if isinstance(chunks, tuple):
        chunks = (*chunks, 2)[: len(shape)]
    array = items_of(dtype, shape, data.draw(st.integers(0, 99)), data.draw(st.sampled_from("CF")))
    options = {"chunks": chunks or None if shape else None}
    codec = data.draw(st.sampled_from(["zstd", "auto"]))
    file = saved(array, codec=codec, nthreads=data.draw(st.sampled_from([1, 3])), **options)
    check(file, array)
    if codec == "zstd" and not isinstance(chunks, tuple):
        assert read_file(file).trailer == "valid"
    plain = io.BytesIO()
    bp.save(plain, array, codec=codec, **options)
    with bp.open(plain.getvalue()) as a:
        assert a.stats is None
        check_extremes(a, array)


@pytest.fixture(params=[0, 1], ids=["general", "vectors"])
def vectors(request: pytest.FixtureRequest) -> Iterator[None]:
    """Use the general code, or AVX2 if the processor has it."""
    if kernel.limit_vectors(request.param) < request.param:
        pytest.skip("the processor has no AVX2")
    yield
    kernel.limit_vectors(1)


@pytest.mark.usefixtures("vectors")
@pytest.mark.parametrize("count", [1, 15, 16, 17, 511, 512, 513, 4096, 4097, 10_000, 40_000])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_kernel_is_the_plain_version(dtype: np.dtype[Any], count: int) -> None:
    items = items_of(dtype, (count + 1,), count, "C")[1:]
    statistics = Statistics.of(dtype)
    found, expected = statistics.record(items.tobytes()), record_of(items)
    assert statistics.first_difference(found, expected) is None
    assert found[16:24] == expected[16:24]


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4"])
def test_sums_of_the_largest_integers_do_not_wrap(dtype: str) -> None:
    for item in (np.iinfo(dtype).min, np.iinfo(dtype).max):
        items = np.full(40_000, item, dtype)
        assert Statistics.of(items.dtype).record(items.tobytes()) == record_of(items)


def test_extremes_of_integers_are_exact_and_their_sum_wraps() -> None:
    for dtype, low, high in (("i8", -(2**63), 2**63 - 1), ("u8", 0, 2**64 - 1)):
        array = np.array([low, high, high], dtype)
        with bp.open(saved(array)) as a:
            (record,) = np.atleast_1d(a.stats)
            assert (int(record["min"]), int(record["max"])) == (low, high)
            assert record["sum"] == array.sum()
            assert a.max() == high


@pytest.mark.parametrize("dtype", ["c8", "S3", "U2", "f16", "i4,f4", ml_dtypes.float8_e5m2])
def test_other_items_have_none(dtype: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="stats=True is for integers"):
        saved(np.zeros(3, dtype))
    with pytest.raises(TypeError, match="stats=True is for integers"):
        bp.Writer(tmp_path / "a.blp", dtype=dtype, stats=True)
    assert not [*tmp_path.iterdir()]


def test_items_are_those_that_are_stored() -> None:
    array = np.linspace(0, 1, 1000, dtype="f4")
    with bp.open(saved(array, keepbits=3, chunks=100)) as a:
        assert a.max() == a[...].max()
        assert a.stats is not None
        assert a.stats["max"][0] == a[:100].max() != array[:100].max()
        assert bp.verify(saved(array, keepbits=3, chunks=100)).ok


@given(st.data())
def test_appended_rows_have_statistics(tmp_path_factory: Any, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("appended") / "a.blp"
    dtype = data.draw(st.sampled_from(DTYPES))
    counts = data.draw(st.lists(st.integers(0, 7), min_size=2, max_size=5))
    whole = items_of(dtype, (sum(counts), 5), len(counts), "C")
    first, *others = np.split(whole, np.cumsum(counts)[:-1])
    chunks: Any = data.draw(st.sampled_from([None, 2, 3, (2, 3), (4, 2)]))
    if data.draw(st.booleans()):
        with bp.Writer(path, dtype=dtype, shape=(None, 5), chunks=chunks, stats=True) as writer:
            writer.append(first)
            if data.draw(st.booleans()):
                writer.flush()
    else:
        bp.save(path, first, chunks=chunks, stats=True)
    for rows in others:
        reader = bp.open(path)
        with bp.open(path, "a") as a:
            a.append(rows)
            assert a.stats is None
            check_extremes(a, whole[: len(a)])
            if data.draw(st.booleans()):
                a.flush()
            if data.draw(st.booleans()):
                a.append(rows[:0])
        # A reader of the state before the append never has the statistics of another one.
        if reader.stats is not None and reader.size:
            assert reader.stats["nan"].sum() == np.sum(whole[: len(reader)] != whole[: len(reader)])
        check_extremes(reader, whole[: len(reader)])
        reader.refresh()
        check_extremes(reader, whole[: len(reader)])
        reader.close()
    check(path, whole)


def test_a_discarded_append_leaves_the_statistics(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    bp.save(path, np.arange(50), chunks=7, stats=True)
    before = path.read_bytes()
    a = bp.open(path, "a")
    a.append(np.arange(100))
    assert a[-1] == 99
    a.__exit__(KeyError)
    assert path.read_bytes() == before
    with bp.open(path, "a") as a:
        a.append(np.arange(30))
        a.flush()
        a.append(np.arange(30))
        a.__exit__(KeyError)
    check(path, np.concatenate([np.arange(50), np.arange(30)]))


def test_parts_and_copies_have_the_same_statistics(tmp_path: Path) -> None:
    array = items_of(np.dtype("f4"), (100, 6), 1, "C")
    for chunks in (7, (7, 4)):
        data = saved(array, chunks=chunks)
        path = tmp_path / "parts.blp"
        with bp.parts(path, shape=(100, 6), dtype="f4", chunks=chunks, stats=True) as job:
            job.commit([job.write(start, array[start:stop]) for start, stop in job.split(500)])
        assert path.read_bytes() == data
        with bp.open(data) as a:
            bp.save(tmp_path / "copy.blp", a)
            assert (tmp_path / "copy.blp").read_bytes() == data
            bp.save(tmp_path / "other.blp", a, checksum="xxh3_64")
            check(tmp_path / "other.blp", array)
            bp.save(tmp_path / "like.blp", array[::2].copy(), like=a)
            check(tmp_path / "like.blp", array[::2])
            bp.save(tmp_path / "none.blp", a, stats=False)
        with bp.open(tmp_path / "none.blp") as b:
            assert b.stats is None


@needs_exchange
def test_conversions_make_statistics_of_items_that_have_them(tmp_path: Path) -> None:
    arrays = {"a": np.arange(60.0).reshape(20, 3), "text": np.array(["x", "y"])}
    np.save(tmp_path / "a.npy", arrays["a"])
    bp.convert(tmp_path / "a.npy", tmp_path / "a.blp", stats=True, chunks=7)
    check(tmp_path / "a.blp", arrays["a"])
    bp.savez(tmp_path / "z.blp", arrays)
    bp.convert(tmp_path / "z.blp", tmp_path / "y.blp", to="archive", stats=True)
    bp.convert(tmp_path / "a.blp", tmp_path / "plain.blp")
    with bp.open(tmp_path / "y.blp") as z, bp.open(tmp_path / "plain.blp") as plain:
        assert z["a"].stats is not None
        assert z["a"].max() == 59
        assert z["text"].stats is plain.stats is None


def test_archives_keep_the_statistics_of_arrays_that_they_copy(tmp_path: Path) -> None:
    with bp.open(saved(np.arange(100), chunks=7)) as a:
        bp.savez(tmp_path / "z.blp", a=a)
    with bp.open(tmp_path / "z.blp") as z:
        assert z["a"].stats.shape == (15,)
        assert z["a"].min() == 0
    assert bp.verify(tmp_path / "z.blp").ok
    with bp.open(tmp_path / "z.blp", "r+") as z:
        z["a"][0] = -1
        assert z["a"].min() == -1
        assert z["a"].stats["min"][0] == -1
    with bp.open(tmp_path / "z.blp") as z:
        assert z["a"].stats["min"].tolist() == [-1, *range(7, 100, 7)]
        assert z["a"].min() == -1


@pytest.mark.parametrize("changeable", [False, True])
def test_arrays_of_an_archive_have_them_if_their_items_do(changeable: bool, tmp_path: Path) -> None:
    path, arrays = tmp_path / "z.blp", {"stats": np.arange(9.0), "text": np.array(["x", "y"])}
    bp.savez(path, arrays, stats=True, changeable=changeable)
    with bp.open(path) as z:
        assert z["stats"].stats["sum"].item() == 36
        assert z["text"].stats is None
    with pytest.raises(TypeError, match="stats must be True or False; give an array of this name"):
        bp.savez(path, stats=np.arange(3))


def test_variables_of_a_dataset_have_them_if_their_items_do(tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    times = np.array(["2024-01-01", "2024-01-04", "2024-01-05"], "M8[s]")
    variables = {"t": ("time", np.arange(3.0)), "text": ("time", np.array(["x", "y", "z"]))}
    ds = xr.Dataset(variables, {"time": times})
    path = tmp_path / "ds.blp"
    bp.save(path, ds, stats=True)
    xr.testing.assert_identical(xr.open_dataset(path, engine="bloscpack").load(), ds)
    later = ds.isel(time=slice(2)).assign_coords(time=times[1:] + np.timedelta64(9, "D"))
    bp.append(path, later)
    with bp.open(path) as z:
        assert z["t"].stats["max"].max() == 2
        assert z["t"].stats["sum"].sum() == 4
        assert z["text"].stats is None
    assert bp.verify(path).ok


def test_changed_attrs_leave_the_statistics(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    bp.save(path, np.arange(50), chunks=7, stats=True)
    for size in (1, 10_000):  # in place, and as a new file
        with bp.open(path, "a") as a:
            a.update_attrs({"text": "x" * size})
        check(path, np.arange(50))


@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize("chunks", [10, (10, 2)])
def test_a_recovered_file_has_those_of_what_was_saved(
    chunks: Any, changes: bool, tmp_path: Path
) -> None:
    array = np.arange(400, dtype="f4").reshape(100, 4)
    array[7, 3] = np.nan
    bp.save(tmp_path / "a.blp", array, chunks=chunks, stats=True, changeable=changes)
    data = bytearray((tmp_path / "a.blp").read_bytes())
    with bp.open(bytes(data)) as a:
        for index in (3, a.nchunks - 1):
            data[a.chunk_offset(index) + 20] ^= 1
    (tmp_path / "a.blp").write_bytes(data)
    report = bp.recover(tmp_path / "a.blp", tmp_path / "b.blp")
    assert report.damage
    found = bp.load(tmp_path / "b.blp")
    assert not np.array_equal(found, array, equal_nan=True)
    check(tmp_path / "b.blp", found)


@pytest.mark.parametrize("changeable", [False, True])
def test_a_file_that_is_changed_keeps_them(changeable: bool, tmp_path: Path) -> None:
    path, array = tmp_path / "a.blp", np.arange(100)
    bp.save(path, array, chunks=10, stats=True, changeable=changeable)
    with bp.open(path, "r+") as a:
        a[50] = 1000
        assert (a.max(), a.stats["max"][5]) == (1000, 1000)
    for after in (lambda _: None, bp.compact):
        after(path)
        with bp.open(path) as a:
            assert a.stats["max"].tolist() == [9, 19, 29, 39, 49, 1000, 69, 79, 89, 99]
            assert a.stats["sum"][5] == array[51:60].sum() + 1000
            assert list(a.chunks_where(max=(">", 80))) == [5, 8, 9]
        assert bp.verify(path).ok
    array[50] = 1000
    check(path, array)


def test_a_stale_trailer_has_none(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    bp.save(path, np.arange(100, dtype="u1"), chunks=10, stats=True)
    with path.open("r+b") as file:
        bp.append.append_fp(file, io.BytesIO(bytes([255] * 20)), 20)
    with bp.open(path) as a:
        assert a.stats is None
        with pytest.raises(ValueError, match="no statistics of its chunks"):
            a.chunks_where(max=(">", 3))
    with bp.open(path, "a") as a:
        a.append(np.full(5, 254, "u1"))
    with bp.open(path) as a:
        assert a.stats is None
        assert a.max() == 255


def test_behind_a_url() -> None:
    array = items_of(np.dtype("f4"), (3000, 100), 1, "C")
    data = saved(array, chunks=(100, 30))
    with running(FileServer()) as server:
        server.files["/a.blp"] = data
        with bp.open(server.url("a.blp")) as a:
            assert a.container.front.trailer_state == "unread"
            assert a.stats is not None
            assert a.stats.shape == (30, 4)
            check_extremes(a, array)
            with bp.open(data) as local:
                assert a.stats.tobytes() == local.stats.tobytes()  # type: ignore[union-attr]
        assert bp.verify(server.url("a.blp")).trailer == "valid"


class TestChunksWhere:
    ARRAY = np.arange(6000, dtype="f4").reshape(60, 100) % 997

    @pytest.mark.parametrize("order", ["C", "F"])
    @pytest.mark.parametrize("chunks", [7, (10, 33)])
    def test_leaves_out_no_item(self, chunks: Any, order: Any) -> None:
        array = self.ARRAY.copy(order)
        array[30:, 50:] = np.nan
        if order == "F" and chunks == 7:
            chunks = (60, 7)
        with bp.open(saved(array, chunks=chunks)) as a:
            for sign, value in ((">", 900), (">=", 996), ("<", 3), ("==", 996)):
                name = "min" if sign == "<" else "max"
                found = a.chunks_where(**{name: (sign, value)})
                test = {"<": np.less, ">": np.greater, ">=": np.greater_equal, "==": np.equal}
                needed = [
                    index
                    for index in range(a.nchunks)
                    if test[sign](a[a.chunk_region(index)], value).any()
                ]
                assert list(found) == needed
                assert all(found[index] == a.chunk_region(index) for index in found)
            both = a.chunks_where(nan=(">", 0), max=(">", 990))
            assert set(both) == {*a.chunks_where(nan=(">", 0))} & {*a.chunks_where(max=(">", 990))}
            assert len(a.chunks_where()) == a.nchunks

    def test_times(self) -> None:
        times = np.arange("2020-01-01", "2020-03-01", dtype="M8[D]")
        with bp.open(saved(times, chunks=10)) as a:
            assert list(a.chunks_where(max=(">=", "2020-02-25"))) == [5]
            assert list(a.chunks_where(min=("<", np.datetime64("2020-01-05T01", "h")))) == [0]
        with bp.open(saved(times - times[0], chunks=10)) as a:
            assert list(a.chunks_where(max=(">", np.timedelta64(55 * 24, "h")))) == [5]

    @pytest.mark.parametrize("value", [2**63, 2**64 - 1, np.uint64(2**64 - 1)])
    def test_numbers_beyond_the_type(self, value: Any) -> None:
        flags = np.array([0, 0, 1, 1, 0, 1], bool)
        with bp.open(saved(flags, chunks=2)) as a:
            assert list(a.chunks_where(max=("<", value))) == [0, 1, 2]
            assert a.chunks_where(min=(">=", value)) == {}
            assert list(a.chunks_where(min=("==", 1), max=(">", 0.5))) == [1]
        lags = np.arange(6).astype("m8[s]")
        with (
            bp.open(saved(lags, chunks=2)) as a,
            pytest.raises(TypeError, match="max cannot be compared with"),
        ):
            a.chunks_where(max=("<", value))

    @pytest.mark.parametrize(
        ("dtype", "value"),
        [
            ("M8[D]", 5),
            ("M8[D]", 5.5),
            ("M8[D]", "spring"),
            ("M8[D]", np.timedelta64(5, "D")),
            ("m8[s]", 5.5),
            ("m8[s]", np.datetime64("2020-01-01")),
            ("f8", np.datetime64("2020-01-01")),
        ],
    )
    def test_times_and_numbers_are_not_compared(self, dtype: str, value: Any) -> None:
        with (
            bp.open(saved(np.arange(6).astype(dtype), chunks=2)) as a,
            pytest.raises(TypeError, match=r"max cannot be compared .*: it has dtype"),
        ):
            a.chunks_where(max=("<", value))

    @pytest.mark.parametrize("dtype", ["i8", "u8", "f4", "f8", "bool"])
    @pytest.mark.parametrize("value", [2**64, 2**70 + 1, 10**400], ids=["64", "70", "long"])
    def test_integers_beyond_64_bits(self, dtype: str, value: int) -> None:
        array = np.array([0, 1, 1, 1, 0, 0]).astype(dtype)
        if dtype[0] == "f":
            array[4:] = np.nan, np.inf
        with bp.open(saved(array, chunks=2)) as a:
            assert list(a.chunks_where(max=("<", value))) == (
                [0, 1] if dtype[0] == "f" else [0, 1, 2]
            )
            assert a.chunks_where(min=("==", value), max=(">=", value)) == {}
            assert list(a.chunks_where(nan=("!=", value))) == [0, 1, 2]
            assert a.chunks_where(min=("<", -value)) == {}

    @pytest.mark.parametrize(
        ("conditions", "error", "message"),
        [
            ({"mean": ("<", 3)}, TypeError, "conditions are min, max, nan and sum, not 'mean'"),
            ({"max": 3}, TypeError, "max must be a comparison and a value"),
            ({"max": ("=", 3)}, ValueError, "'=' is not one of <, <=, >"),
            ({"max": ("<", "3")}, TypeError, "cannot be compared with '3'"),
            ({"max": ("<", [3])}, TypeError, "cannot be compared with"),
            ({"max": ("<", None)}, TypeError, "cannot be compared with None"),
        ],
    )
    def test_mistakes(self, conditions: Any, error: Any, message: str) -> None:
        with bp.open(saved(self.ARRAY)) as a, pytest.raises(error, match=message):
            a.chunks_where(**conditions)

    def test_an_empty_array_has_no_chunks(self) -> None:
        with bp.open(saved(np.empty((0, 4)))) as a:
            assert a.chunks_where(sum=("==", 0)) == {}


def test_numpy_calls_the_methods() -> None:
    array = np.arange(12.0).reshape(3, 4)
    with bp.open(saved(array)) as a:
        assert np.max(a) == 11
        assert np.min(a, axis=0).tolist() == [0, 1, 2, 3]
        assert np.max(a, keepdims=True).shape == (1, 1)
        assert np.min(a, initial=-5) == -5


class TestDamage:
    DATA = saved(np.arange(1000, dtype="f8"), chunks=100)

    def test_every_flip_is_reported_and_fixed(self, tmp_path: Path) -> None:
        trailer = read_trailer(MemorySource(self.DATA))
        assert trailer is not None
        offset, nbytes = trailer.statistics_extent()
        assert nbytes == 320
        path = tmp_path / "a.blp"
        for at in (*range(offset, offset + nbytes, 37), len(self.DATA) - 54, len(self.DATA) - 20):
            damaged = bytearray(self.DATA)
            damaged[at] ^= 4
            path.write_bytes(damaged)
            report = bp.verify(path)
            assert not report.ok, at
            assert report.trailer == "damaged"
            with bp.open(path) as a:
                assert a[-1] == 999
                if offset <= at < offset + nbytes:
                    with pytest.raises(FormatError, match="the statistics are damaged"):
                        a.max()
                    with pytest.raises(FormatError, match="the statistics are damaged"):
                        bp.open(path, "a")
            assert bp.verify(path, fix=True).ok
            if offset <= at < offset + nbytes:
                assert path.read_bytes() == self.DATA

    @pytest.mark.parametrize("cut", [1, 63, 64, 200, 500])
    def test_a_cut_trailer_is_damage(self, cut: int) -> None:
        report = bp.verify(self.DATA[:-cut])
        assert not report.ok
        assert "trailer: truncated" in str(report.damage[0].what)

    def lie(self, **fields: Any) -> bytes:
        """Return the file with other statistics of chunk 3, all checksums of which match."""
        trailer = read_trailer(MemorySource(self.DATA))
        assert trailer is not None
        offset, nbytes = trailer.statistics_extent()
        types = [("min", "<f8"), ("max", "<f8"), ("nan", "<u8"), ("sum", "<f8")]
        records = np.frombuffer(self.DATA[offset : offset + nbytes], types).copy()
        for name, value in fields.items():
            records[3][name] = value
        stored = records.tobytes()
        data = self.DATA[:offset] + stored + self.DATA[offset + nbytes :]
        return forged(data, z=xxh3_64_digest(stored))

    @pytest.mark.parametrize(
        "fields", [{"min": 301.0}, {"max": 300.0}, {"sum": 0.0}, {"sum": np.nan}, {"nan": 1}]
    )
    def test_wrong_statistics_are_damage(self, fields: Any, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        path.write_bytes(self.lie(**fields))
        (damage,) = bp.verify(path).damage
        assert damage.what == "the statistics of chunk 3 are not those of its items"
        assert bp.verify(path, fix=True).ok
        assert path.read_bytes() == self.DATA

    @pytest.mark.parametrize(
        "fields",
        [{"min": 1e9}, {"max": -1}, {"nan": 101}, {"nan": 2**63}, {"max": np.nan}, {"nan": 100}],
    )
    def test_impossible_statistics_are_refused(self, fields: Any) -> None:
        with bp.open(self.lie(**fields)) as a:
            for use in (a.min, a.max, a.chunks_where, lambda: a.stats):
                with pytest.raises(FormatError, match=r"chunk 3 are .* no 100 items"):
                    use()

    def test_statistics_of_items_that_have_none_are_refused(self) -> None:
        for dtype, chunk_size in (("c8", 800), ("f8", 804)):
            with pytest.raises(FormatError, match="it has statistics of"):
                Statistics.stored(np.dtype(dtype), chunk_size)
