"""Arrays that are changed in place, against numpy."""

import io
import os
import pickle
import threading
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import bloscpack as bp
from bloscpack.array import array, changes
from bloscpack.container import logreader as reading
from bloscpack.container import logwriter
from bloscpack.container.compact import compact_array
from bloscpack.container.logreader import extents_of, read_commit
from bloscpack.exceptions import (
    BloscpackWarning,
    ChecksumMismatch,
    FileChangedError,
    LockedError,
)
from bloscpack.format import log as layout
from bloscpack.format.header import Header
from bloscpack.format.statistics import Statistics
from bloscpack.storage import disk, lock
from bloscpack.storage.memory import MemorySource

from ..counting import CountingBytes
from ..reference.chunk_statistics import record_of

pytestmark = pytest.mark.usefixtures("no_sync")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a file."""
    return tmp_path / "t.blp"


DTYPES = ["f8", ">i4", "u1", "?", "c8", "U3", "M8[s]", "f2"]
# Without a grid, in a grid, and with array chunks.
LAYOUTS: dict[str, dict[str, Any]] = {
    "rows": {"chunks": 2},
    "one chunk": {},
    "grid": {"chunks": "cut"},
    "array chunks": {"chunks": "cut", "codec": "auto"},
}


def _saved(path: Path, array: np.ndarray[Any, Any], options: dict[str, Any]) -> None:
    if options.get("chunks") == "cut":
        options = {**options, "chunks": tuple(max(length // 2, 1) for length in array.shape)}
    bp.save(path, array, **options)


def _values(draw: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    numbers = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 100, shape)
    return numbers.astype(dtype)


class Model:
    """An array in a file, and what numpy has after the same changes."""

    def __init__(self, data: st.DataObject, path: Path) -> None:
        self.draw, self.path = data.draw, path
        dtype = np.dtype(self.draw(st.sampled_from(DTYPES)))
        shape = self.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=7))
        self.now = _values(self.draw, dtype, shape)
        self.borrowed: list[np.ndarray[Any, Any]] = []
        self.order = self.draw(st.sampled_from("CF"))
        self.options = LAYOUTS[self.draw(st.sampled_from(sorted(LAYOUTS)))]
        self.has_stats = Statistics.are_of(dtype) and self.draw(st.booleans())
        if self.has_stats:
            self.options = {**self.options, "stats": True}
        _saved(path, np.array(self.now, order=self.order), self.options)
        self.committed = self.now.copy()
        self.is_grid = self.options.get("chunks") == "cut"
        self.file = bp.open(path, "r+")

    def step(self) -> None:
        steps = [self.assign, self.assign, self.pick, self.mask, self.resize, self.append]
        self.draw(st.sampled_from([*steps, self.flush, self.fail, self.reopen]))()
        assert self.file.shape == self.now.shape

    def assign(self) -> None:
        index = self.draw(hnp.basic_indices(self.now.shape, allow_newaxis=True))
        target = np.asarray(self.now[index])
        if self.draw(st.booleans()):
            value: Any = _values(self.draw, self.now.dtype, target.shape)
        else:
            value = _values(self.draw, self.now.dtype, ())
        if self.draw(st.booleans()):  # the file may keep the array until the next flush
            self.file._assign(index, value, borrow=True)
            self.borrowed.append(value)
        else:
            self.file[index] = value
        self.now[index] = value

    def pick(self) -> None:
        if not self.now.size:
            return
        shape = hnp.array_shapes(max_dims=2, max_side=4)
        index = self.draw(hnp.integer_array_indices(self.now.shape, result_shape=shape))
        value = _values(self.draw, self.now.dtype, self.now[index].shape)
        self.file[index] = value
        self.now[index] = value

    def mask(self) -> None:
        mask = self.draw(hnp.arrays(bool, self.now.shape))
        value = _values(self.draw, self.now.dtype, (int(mask.sum()),))
        self.file[mask] = value
        self.now[mask] = value

    def _as_saved(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.array(array, order="F" if self.file.is_fortran else "C")

    def resize(self) -> None:
        shape = list(self.now.shape)
        axis = self.draw(st.integers(0, len(shape) - 1))
        shape[axis] = self.draw(st.integers(0, 9))
        try:
            self.file.resize(tuple(shape))
        except ValueError:  # the chunks do not allow it
            return
        grown = np.zeros(shape, self.now.dtype)
        kept = tuple(slice(0, min(*pair)) for pair in zip(shape, self.now.shape, strict=True))
        grown[kept] = self.now[kept]
        self.now = grown

    def append(self) -> None:
        axis = self.now.ndim - 1 if self.file.is_fortran else 0
        shape = list(self.now.shape)
        shape[axis] = self.draw(st.integers(0, 4))
        rows = _values(self.draw, self.now.dtype, tuple(shape))
        if not np.prod([n for at, n in enumerate(shape) if at != axis]):
            return
        self.file.append(rows)
        self.now = np.concatenate([self.now, rows], axis).astype(rows.dtype)

    def flush(self) -> None:
        self.file.flush()
        for value in self.borrowed:
            value[...] = np.ones((), value.dtype)
        self.borrowed.clear()
        self.committed = self.now.copy()
        self.check_file()

    def fail(self) -> None:
        with suppress(ZeroDivisionError), self.file:
            self.file[...] = np.zeros((), self.now.dtype)
            raise ZeroDivisionError
        self.now = self.committed.copy()
        self.file = bp.open(self.path, "r+")

    def reopen(self) -> None:
        self.file.close()
        self.committed = self.now.copy()
        report = bp.verify(self.path)
        assert report.ok, report
        self.check_file()
        self.file = bp.open(self.path, "r+")

    def check_file(self) -> None:
        with bp.open(self.path) as other:
            _check_equal(other, self.now)
            self.check_statistics(other)

    def check_statistics(self, array: Any) -> None:
        """Check that the statistics of chunks are those of their items."""
        if self.has_stats:
            check_statistics(array)
        else:
            assert array.stats is None


def _check_equal(array: Any, expected: np.ndarray[Any, Any]) -> None:
    assert array.dtype == expected.dtype
    np.testing.assert_array_equal(array[...], expected)


def check_statistics(array: Any) -> None:
    """Check that the statistics of chunks are those of their items."""
    found, dtype = array.stats, array.dtype
    contents = [np.frombuffer(content, dtype) for content in array.iter_chunks()]
    expected = b"".join(map(record_of, contents))
    counts = np.array([len(content) for content in contents])
    records = Statistics.of(dtype).unpack(expected, counts)
    if array.is_fortran and array.chunks is not None:
        found = found.T
    np.testing.assert_array_equal(found.ravel(), records[: found.size])


@pytest.mark.parametrize("limit", [0, 1 << 20])
@given(data=st.data())
def test_changes_are_those_of_numpy(
    limit: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "_HELD_NBYTES", limit)
        for module in (reading, logwriter):
            patch.setattr(module, "LEAF_RECORDS", 4)
        for module in (reading, logwriter, layout):
            patch.setattr(module, "PAGE_ROWS", 3)
        model = Model(data, tmp_path_factory.mktemp("model") / "t.blp")
        try:
            for _ in range(data.draw(st.integers(1, 8))):
                model.step()
                _check_equal(model.file, model.now)
                model.check_statistics(model.file)
            model.file.close()
            model.check_file()
            bp.compact(model.path)
            model.check_file()
        finally:
            model.file.close()


def test_borrowed_items_are_not_used_after_a_flush(path: Path) -> None:
    bp.save(path, np.zeros(8, "i4"), chunks=4)
    new = np.full(4, 2, "i4")
    with bp.open(path, "r+") as a:
        a[:4] = 1
        a.flush()
        a._assign(slice(0, 4), new, borrow=True)
        a.flush()
        new[:] = 9
        a[0] = 3
        assert a[:4].tolist() == [3, 2, 2, 2]
    assert bp.load(path).tolist() == [3, 2, 2, 2, 0, 0, 0, 0]


def test_borrowed_items_are_copied_before_they_change(path: Path) -> None:
    bp.save(path, np.zeros(4, "i4"), chunks=4)
    new = np.arange(4, dtype="i4")
    with bp.open(path, "r+") as a:
        a._assign(..., new, borrow=True)
        a[1] = 7
    assert new.tolist() == [0, 1, 2, 3]
    assert bp.load(path).tolist() == [0, 7, 2, 3]


def test_fields_and_broadcasts(path: Path) -> None:
    x = np.zeros((40, 3), [("a", "i4"), ("b", "f8"), ("c", "S2")])
    bp.save(path, x, chunks=8)
    with bp.open(path, "r+") as a:
        a["a"] = np.arange(3)
        a[["b", "c"]] = (2.5, b"xy")
        a[5] = (1, 2.0, b"z")
        x["a"] = np.arange(3)
        x["b"], x["c"] = 2.5, b"xy"
        x[5] = (1, 2.0, b"z")
        _check_equal(a, x)
    _check_equal(bp.load(path), x)


@pytest.mark.parametrize("order", ["C", "F"])
def test_values_are_broadcast_to_a_list_of_two_dimensions(path: Path, order: Any) -> None:
    x = np.zeros((30, 40), "i4", order=order)
    bp.save(path, x, chunks=8)
    with bp.open(path, "r+") as a:
        for index, value in (
            (([[7, -6], [4, -2], [-5, -9]], slice(None)), np.arange(40)),
            ((slice(None, None, 3), [[15, 8], [14, 7], [-9, -7]]), np.arange(3)[:, None]),
        ):
            a[index] = value
            x[index] = value
            _check_equal(a, x)
    _check_equal(bp.load(path), x)


def test_false_selects_no_item_of_an_array_without_axes(path: Path) -> None:
    bp.save(path, np.array(5))
    with bp.open(path, "r+") as a:
        a[False] = 1
        assert a[()] == 5
        a[True] = 2
    assert bp.load(path) == 2


@pytest.mark.parametrize("dtype", ["M8[ns]", ">M8[s]", "m8[s]", "M8[D]"])
def test_times_may_be_missing(path: Path, dtype: str) -> None:
    x = np.ones(4, dtype)
    bp.save(path, x, changeable=True)
    with bp.open(path, "r+") as a:
        missing = x.dtype.type("NaT", "s")
        for index, value in (
            (0, missing),
            (1, x.dtype.type("NaT", "ns")),
            (slice(2, None), np.array([missing, 0], x.dtype.newbyteorder())),
        ):
            a[index] = value
            x[index] = np.asarray(value).astype(dtype)  # numpy 1.26 sets other items
        _check_equal(a, x)
        with pytest.raises(ValueError, match="do not fit"):
            a[0] = x.dtype.type(1 << 62, "W")
        _check_equal(a, x)
    _check_equal(bp.load(path), x)


def test_records_of_the_other_byte_order_may_have_nan(path: Path) -> None:
    x = np.zeros(3, [("a", "i4"), ("b", "f8")])
    bp.save(path, x, chunks=2)
    with bp.open(path, "r+") as a:
        x[1] = (1, np.nan)
        a[...] = x.astype(x.dtype.newbyteorder())
        assert a[...].tobytes() == x.tobytes()


def test_statistics_of_chunks_that_move_before_they_are_written(path: Path) -> None:
    bp.save(path, np.ones((4, 4), "i2"), chunks=(2, 2), stats=True)
    with bp.open(path, "r+") as a:
        for shape in ((4, 7), (5, 9), (6, 3), (6, 8)):
            a.resize(shape)
        a[5, 7] = -3
        assert (a.min(), a.max()) == (-3, 1)
    with bp.open(path) as a:
        assert a.stats["min"].tolist() == [[1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, -3]]
        assert a.stats["max"].tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]]
    assert bp.verify(path).ok


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        ("u1", 256, "do not fit uint8"),
        ("u1", -1, "do not fit uint8"),
        ("i2", np.array([1 << 20]), "do not fit int16"),
        ("i4", 1.5, "do not fit int32"),
        ("u8", -1, "do not fit uint64"),
        ("i8", 2**63 + 5, "do not fit int64"),
        ("i8", np.array([2**64 - 1], "u8"), "do not fit int64"),
        ("U2", "long", "do not fit <U2"),
        ("f4", 1e300, "do not fit float32"),
        ("f4", np.array([-1e300]), "do not fit float32"),
        ("c8", 1e300j, "do not fit complex64"),
        ("i4,f4", (1.5, 2), "do not fit int32"),
        ("i4,f4", [(1, 2), (3, 1e300)], "do not fit float32"),
        ("i4,U2", (1, "long"), "do not fit <U2"),
        ([("a", "i4,u1"), ("b", "f2", (2,))], ((1, 256), [1, 2]), "do not fit uint8"),
        ([("a", "i4,u1"), ("b", "f2", (2,))], ((1, 2), [1, 1e9]), "do not fit float16"),
    ],
)
def test_values_that_would_change_are_refused(
    path: Path, dtype: Any, value: Any, message: str
) -> None:
    bp.save(path, np.zeros(4, dtype))
    with bp.open(path, "r+") as a:
        with pytest.raises(ValueError, match=message):
            a[1:3] = value
        _check_equal(a, np.zeros(4, dtype))


def test_records_of_records(path: Path) -> None:
    x = np.zeros((3, 2), [("a", [("b", "i4"), ("c", "U2")]), ("d", "f4", (2,)), ("e", "M8[D]")])
    record = ((1, "xy"), [0.1, np.nan], np.datetime64("2026-01-01"))
    bp.save(path, x)
    with bp.open(path, "r+") as a:
        for index, value in ((0, record), (1, [record, record]), (np.s_[:0, 0], [])):
            a[index] = value
            x[index] = value
        a[2] = [x[0, 0], x[1, 1]]
        x[2] = x[0, 0]
        assert a[...].tobytes() == x.tobytes()


def test_options_of_urls_are_refused_for_files(path: Path) -> None:
    bp.save(path, np.zeros(3))
    for mode in ("a", "r+"):
        with pytest.raises(ValueError, match="storage_options are for URLs"):
            bp.open(path, mode, storage_options={"anon": True})  # type: ignore[arg-type]
    bp.savez(path, a=np.zeros(3))
    for opened in (bp.open, bp.Archive):
        with pytest.raises(ValueError, match="storage_options are for URLs"):
            opened(path, "r+", storage_options={"anon": True})


def test_integers_and_infinities_fit_complex_items(path: Path) -> None:
    bp.save(path, np.zeros(3, "c8"))
    with bp.open(path, "r+") as a:
        a[0] = 7
        a[1] = np.inf
        a.append([5, 2**20])
    assert bp.load(path).tolist() == [7, np.inf, 0, 5, 2**20]


@pytest.mark.parametrize(("dtype", "row"), [("u8", -1), ("i8", 2**63 + 5), ("f4", 1e300)])
@pytest.mark.parametrize("mode", ["a", "r+"])
def test_appended_numbers_do_not_wrap(path: Path, mode: Any, dtype: str, row: int) -> None:
    with bp.Writer(path, dtype=dtype, shape=(None,)) as writer:
        writer.append([1])
        with pytest.raises(TypeError, match="without loss"):
            writer.append([row])
    with bp.open(path, mode) as a, pytest.raises(TypeError, match="without loss"):
        a.append([1, row])
    assert bp.load(path).tolist() == [1]


@pytest.mark.parametrize("value", [np.array(1.5), 1j, "text", np.array(["a"]), None, object()])
def test_other_types_are_refused(path: Path, value: Any) -> None:
    bp.save(path, np.zeros(4, "i4"))
    with bp.open(path, "r+") as a:
        with pytest.raises((TypeError, ValueError)):
            a[1] = value
        _check_equal(a, np.zeros(4, "i4"))


def test_shapes_that_do_not_fit_are_refused(path: Path) -> None:
    bp.save(path, np.zeros((4, 5)))
    with bp.open(path, "r+") as a:
        with pytest.raises(
            ValueError, match=r"shape \(3,\) do not fit a selection of shape \(5,\)"
        ):
            a[1] = [1, 2, 3]
        with pytest.raises(IndexError):
            a[9] = 1
        with pytest.raises(ValueError, match="2 lengths"):
            a.resize(3)
        with pytest.raises(ValueError, match="only the first axis can change"):
            a.resize(4, 6)
        with pytest.raises(ValueError, match=r"exceeds 2\^63-1 bytes"):
            a.resize(2**62, 5)


def test_rounding_is_that_of_the_file(path: Path) -> None:
    x = np.random.default_rng(0).standard_normal(3000).astype("f4")
    bp.save(path, x, keepbits=8)
    with bp.open(path, "r+") as a:
        a[7:900] = x[7:900] * 2
        inside = a[...]
    bp.save(path.with_name("u"), x[7:900] * 2, keepbits=8)
    _check_equal(bp.load(path)[7:900], bp.load(path.with_name("u")))
    _check_equal(bp.load(path), inside)


def test_modes_say_what_they_cannot_do(path: Path) -> None:
    bp.save(path, np.zeros(4))
    for mode in ("r", "a"):
        with bp.open(path, mode) as a:
            with pytest.raises(TypeError, match=r"open it with mode 'r\+' to change it"):
                a[0] = 1
            with pytest.raises(TypeError, match=r"open it with mode 'r\+' to resize it"):
                a.resize(9)


def test_a_log_can_be_appended_to(path: Path) -> None:
    bp.save(path, np.zeros(4))
    with bp.open(path, "r+") as a:
        a[0] = 1
    with bp.open(path, "a") as a:
        assert a.mode == "a"
        a.append([5.0, 6])
    _check_equal(bp.load(path), np.array([1.0, 0, 0, 0, 5, 6]))


def test_attrs_change(path: Path) -> None:
    bp.save(path, np.zeros(4), attrs={"unit": "m"})
    with bp.open(path, "r+") as a:
        a.attrs["unit"] = "K"
        a.attrs["long"] = "x" * 9000
    with bp.open(path) as a:
        assert a.attrs == {"unit": "K", "long": "x" * 9000}


def test_one_writer(path: Path) -> None:
    bp.save(path, np.zeros(4))
    with bp.open(path, "r+") as a:
        a[0] = 1
        for mode in ("r+", "a"):
            with pytest.raises(LockedError):
                bp.open(path, mode)
        a.flush()  # the file is a new one from here on
        with pytest.raises(LockedError):
            bp.open(path, "r+")


def test_an_old_reader_keeps_its_version(path: Path) -> None:
    x = np.random.default_rng(0).integers(0, 1 << 60, (50, 1000))
    bp.save(path, x, chunks=5)
    with bp.open(path, "r+") as a:
        a[0] = 0
        x[0] = 0
    reader = bp.open(path)
    copy = pickle.loads(pickle.dumps(reader))
    with bp.open(path, "r+") as a:
        for _ in range(5):
            a[::3] = np.random.default_rng(1).integers(0, 1 << 60, a[::3].shape)
            a.flush()
        now = a[...]
    _check_equal(reader, x)
    _check_equal(copy, x)
    pickled = pickle.dumps(reader)
    reader.refresh()
    _check_equal(reader, now)
    with pytest.raises(FileChangedError):
        pickle.loads(pickled)


def test_an_old_state_of_the_writer_is_never_other_content(path: Path) -> None:
    rng = np.random.default_rng(1)
    before = rng.integers(0, 1 << 30, (100, 2000)).astype("i4")
    bp.save(path, before, chunks=10, clevel=0, changeable=True)
    with bp.open(path, "r+") as a:
        a[0, 0] = before[0, 0]
        a.flush()
        assert np.array_equal(a[:], before)
        old, found = a.container, bytearray(before[0].nbytes)
        for number in range(4):
            a[:] = before + number + 1
            a.flush()
        for number in range(10):
            with suppress(FileChangedError):
                old.read_bytes_into(number, 0, found)
                assert found == before[10 * number].tobytes()


@pytest.mark.parametrize("verify", [True, False])
def test_without_locks_an_old_reader_never_finds_other_content(
    path: Path, monkeypatch: pytest.MonkeyPatch, verify: bool
) -> None:
    monkeypatch.setattr(lock, "hold_version", lambda *_: False)
    monkeypatch.setattr(lock, "versions_held", lambda *_: None)
    # Noise is stored as it is, so that all chunks fit each hole.
    before = np.random.default_rng(1).integers(0, 1 << 63, (100, 1000))
    bp.save(path, before, chunks=10, changeable=True)
    with bp.open(path, verify=verify) as reader, bp.open(path, "r+") as a:
        assert np.array_equal(reader[99], before[99])  # which reads the page of all rows
        for number in range(4):
            a[:] = np.random.default_rng(number).permutation(before)
            a.flush()
        for number in range(100):
            with suppress(FileChangedError):
                assert np.array_equal(reader[number], before[number])


def test_a_write_of_small_chunks_starts_no_threads(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bp.save(path, np.zeros(100_000), chunks=1000)
    monkeypatch.setattr(threading.Thread, "start", None)
    with bp.open(path, "r+", nthreads=2) as a:
        a[::1000] = 1
    assert (bp.load(path)[::1000] == 1).all()


def test_a_small_change_of_a_large_array_is_small(path: Path) -> None:
    x = np.zeros((3000, 64), "i4")
    bp.save(path, x, chunks=1)
    with bp.open(path, "r+") as a:
        a[1] = 1
    before = os.path.getsize(path)
    with bp.open(path, "r+") as a:
        a[2000] = 2
    assert os.path.getsize(path) - before < 21_000  # a page of 1,024 rows, and a chunk


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0)])
def test_arrays_without_items_or_axes(path: Path, shape: tuple[int, ...]) -> None:
    x = np.zeros(shape)
    bp.save(path, x)
    with bp.open(path, "r+") as a:
        a[...] = 5
    x[...] = 5
    _check_equal(bp.load(path), x)


def test_rows_have_the_shape_of_now(path: Path) -> None:
    bp.save(path, np.ones((2, 6)), chunks=(2, 3))
    with bp.open(path, "r+") as a:
        a.resize(2, 8)
        with pytest.raises(ValueError, match=r"must have shape \(n, 8\)"):
            a.append(np.ones((4, 6)))
        a.append(np.full((1, 8), 5))
    assert bp.load(path)[1:].tolist() == [[1.0] * 6 + [0.0] * 2, [5.0] * 8]


def test_a_grid_grows_from_nothing(path: Path) -> None:
    bp.save(path, np.ones((1, 1, 7)), chunks=(1, 1, 3))
    with bp.open(path, "r+") as a:
        a.resize(0, 1, 7)
        a.resize(8, 1, 7)
        a[7] = 2
    assert bp.load(path).sum() == 14


def test_changes_that_are_lost_are_announced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bp.save(path, np.ones(9), chunks=1)
    a = bp.open(path, "r+")
    a[1] = 2
    monkeypatch.setattr(changes, "pieces", None)
    with suppress(TypeError):
        a[2] = 3
    with pytest.warns(UserWarning, match="a change failed; those since the last flush are lost"):
        a.close()
    assert (bp.load(path) == 1).all()


def test_a_file_of_bytes(path: Path) -> None:
    bp.pack_bytes_to_file(b"some bytes" * 99, str(path))
    with bp.open(path, "r+") as a:
        a[:4] = np.frombuffer(b"SOME", "u1")
        a.append(np.frombuffer(b"end", "u1"))
    assert bp.load(path).tobytes() == b"SOME bytes" + b"some bytes" * 98 + b"end"


def test_a_changeable_file(path: Path) -> None:
    x = np.arange(3000.0).reshape(30, 100)
    bp.save(path, x, chunks=7, attrs={"unit": "m"}, changeable=True)
    with bp.open(path) as a:
        assert a.container.front.commit is not None
        assert a.attrs == {"unit": "m"}
        _check_equal(a, x)
    with pytest.raises(TypeError, match="changeable needs a path, not 'BytesIO'"):
        bp.save(io.BytesIO(), x, changeable=True)


def test_compact_writes_the_file_of_save(path: Path) -> None:
    for options in ({}, {"chunks": 7}, {"chunks": (7, 30)}, {"codec": "auto", "chunks": (7, 30)}):
        x = np.arange(3000.0).reshape(30, 100)
        saved = path.with_name("saved")
        bp.save(saved, x, **options)
        bp.save(path, np.zeros((3, 100)), **options)
        with bp.open(path, "r+") as a:
            a.append(x[3:])
            a.flush()
            a[...] = x
        changed = path.read_bytes()
        compact_array(path)
        assert bp.verify(path).ok
        with bp.open(path) as a, bp.open(saved) as b:
            assert a.header._replace(typesize=0) == b.header._replace(typesize=0)
            _check_equal(a, x)
        assert len(path.read_bytes()) < len(changed)
        once = path.read_bytes()
        compact_array(path)
        assert path.read_bytes() == once


def test_progress_ends_with_everything(path: Path) -> None:
    x = np.arange(3000.0)
    bp.save(path, x, chunks=700, changeable=True)
    seen: list[tuple[int, int]] = []
    with bp.open(path) as a:
        bp.save(path.with_name("copy"), a, progress=lambda *done: seen.append(done))
    assert [done for done, _ in seen] == [5600, 11200, 16800, 22400, 24000]
    assert {total for _, total in seen} == {24000}
    again: list[tuple[int, int]] = []
    bp.compact(path, progress=lambda *done: again.append(done))
    assert again == seen


@pytest.mark.parametrize("nchunks", [1, 10])
def test_a_closed_file_takes_at_most_twice_the_space_of_a_compact_one(
    nchunks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, path, punched = np.random.default_rng(nchunks), tmp_path / "a.blp", []
    monkeypatch.setattr(disk, "punch", lambda fd, offset, nbytes: punched.append(nbytes))
    bp.save(path, rng.normal(size=20_000), chunks=20_000 // nchunks)
    with bp.open(path, "r+") as a:
        for _ in range(20):
            a[rng.choice(20_000, 1000, replace=False)] = 0
            a.flush()
        punched.clear()
    taken = path.stat().st_size - sum(punched)
    bp.compact(path)
    assert taken <= 2 * path.stat().st_size


def test_a_copy_of_a_handle_is_compact(path: Path) -> None:
    x = np.arange(3000.0)
    bp.save(path, x, chunks=100, changeable=True)
    with bp.open(path, "r+") as a:
        a[500] = x[500] = -1
    with bp.open(path) as a:
        bp.save(path.with_name("copy"), a)
    with bp.open(path.with_name("copy")) as a:
        assert a.header.format_version == 3
        assert a.container.front.commit is None
        _check_equal(a, x)


@pytest.fixture(scope="module")
def changed_file(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, np.ndarray[Any, Any]]:
    """Return a log after some commits, and its content."""
    path = tmp_path_factory.mktemp("changed") / "t.blp"
    x = np.random.default_rng(0).integers(0, 1 << 40, (40, 50))
    bp.save(path, x, chunks=4, changeable=True)
    with bp.open(path, "r+") as a:
        for row in (3, 9, 30):
            a[row] = x[row] = row
            a.flush()
    return path.read_bytes(), x


def test_damage_is_never_content(
    path: Path, changed_file: tuple[bytes, np.ndarray[Any, Any]]
) -> None:
    whole, x = changed_file
    random = np.random.default_rng(1)
    found = wrong = 0
    for number in range(400):
        file = bytearray(whole)
        at = int(random.integers(len(file)))
        if number % 4 == 3:
            del file[at:]
        else:
            file[at] ^= 1 << int(random.integers(8))
        path.write_bytes(file)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                content = bp.load(path)
                wrong += not np.array_equal(content, x)
            except bp.exceptions.BloscpackError:
                found += 1
    assert not wrong
    assert found > 100


def test_recover_finds_every_whole_chunk(
    path: Path, changed_file: tuple[bytes, np.ndarray[Any, Any]]
) -> None:
    whole, x = changed_file
    path.write_bytes(whole)
    with bp.open(path) as a:
        offset = a.chunk_offset(5)
    file = bytearray(whole)
    file[offset + 40] ^= 1
    path.write_bytes(file)
    report = bp.verify(path)
    assert [damage.rows for damage in report.damage] == [(20, 24)]
    report = bp.recover(path, path.with_name("out"))
    assert (report.saved, report.nchunks) == (9, 10)
    expected = x.copy()
    expected[20:24] = 0
    _check_equal(bp.load(path.with_name("out")), expected)
    assert bp.verify(path.with_name("out")).ok


def test_recover_reads_pages_and_groups_from_their_copies(
    path: Path, changed_file: tuple[bytes, np.ndarray[Any, Any]]
) -> None:
    whole, x = changed_file
    commit = read_commit(MemorySource(whole))
    index = list(extents_of(MemorySource(whole), commit, chunks=False))
    assert len(index) == 2
    for gone in (index[:1], index[1:], index):
        file = bytearray(whole)
        for row in gone:
            file[row.offset : row.end] = bytes(row.nbytes)
        path.write_bytes(file)
        with pytest.raises(bp.exceptions.BloscpackError):
            bp.load(path)
        assert not bp.verify(path).ok
        report = bp.recover(path, path.with_name("out"))
        assert report.saved == 10
        assert [each.offset for each in report.damage] == [row.offset for row in gone]
        _check_equal(bp.load(path.with_name("out")), x)
    # Copies that are of another commit are not used.
    for at in range(layout.DATA_OFFSET, commit.start):
        file[at] ^= 1
    path.write_bytes(file)
    report = bp.recover(path, path.with_name("out"))
    assert f"commit {commit.sequence} is lost" in report.damage[0].what


def test_recover_finds_the_chunks_before_a_cut(
    path: Path, changed_file: tuple[bytes, np.ndarray[Any, Any]]
) -> None:
    whole, x = changed_file
    path.write_bytes(whole)
    with bp.open(path) as a:
        places = [a.container.front.table.entry(index) for index in range(a.nchunks)]
    for size in (places[0][1], places[4][1] + 7, max(places)[1] - 1):
        path.write_bytes(whole[:size])
        kept = [index for index, (_, end) in enumerate(places) if end <= size]
        assert bp.recover(path, path.with_name("out")).saved == len(kept) > 0
        expected = np.zeros_like(x[: 4 * kept[-1] + 4])
        for index in kept:
            expected[4 * index : 4 * index + 4] = x[4 * index : 4 * index + 4]
        _check_equal(bp.load(path.with_name("out")), expected)


def test_recover_needs_no_header(
    path: Path, changed_file: tuple[bytes, np.ndarray[Any, Any]]
) -> None:
    whole, x = changed_file
    for at in (0, 4, 40, 60):
        file = bytearray(whole)
        file[at] ^= 0x60
        path.write_bytes(file)
        with pytest.raises(bp.exceptions.BloscpackError):
            bp.load(path)
        assert bp.recover(path, path.with_name("out")).saved == 10
        _check_equal(bp.load(path.with_name("out")), x)


def test_verify_counts_dead_bytes(
    path: Path, changed_file: tuple[bytes, np.ndarray[Any, Any]]
) -> None:
    whole, _ = changed_file
    path.write_bytes(whole)
    report = bp.verify(path)
    assert report.ok
    assert any("bytes are dead; bloscpack.compact gives them back" in n for n in report.notices)
    for at in layout.SLOTS:
        file = bytearray(whole)
        file[at + 20] ^= 1
        path.write_bytes(file)
        report = bp.verify(path)
        assert report.ok
        assert any(f"offset {at} is damaged" in notice for notice in report.notices)


def test_a_changed_file_is_refused_by_what_does_not_know_it(path: Path) -> None:
    bp.save(path, np.zeros(4), changeable=True)
    with pytest.raises(bp.exceptions.UnsupportedError, match="features 0x20"):
        Header.unpack(path.read_bytes())


def test_opening_copies_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(3000.0)
    bp.save(path, x, chunks=100)
    before = path.read_bytes()
    monkeypatch.setattr(disk, "create", lambda _: pytest.fail("a file is made"))
    with bp.open(path, "r+") as a:
        _check_equal(a, x)
        assert a[5] == 5
        a.flush()
    assert path.read_bytes() == before


def test_items_without_bytes(path: Path) -> None:
    bp.save(path, np.zeros(4, "S0"))
    with bp.open(path, "r+") as a:
        a[1:] = np.zeros(3, "S0")
        a[[0, 1]] = b""
    assert bp.load(path).shape == (4,)


def test_a_hostile_number_of_leaves(path: Path) -> None:
    bp.save(path, np.arange(4), changeable=True)
    file = path.read_bytes()
    commit = layout.Commit.unpack(file, layout.SLOTS[1])
    assert commit is not None
    many = commit._replace(groups=layout.Tree(commit.groups.root, 3, 1 << 30)).pack()
    for at in (*layout.SLOTS, *layout.COPIES):
        file = file[:at] + many + file[at + len(many) :]
    path.write_bytes(file)
    for read in (bp.load, bp.verify, lambda path: bp.recover(path, path.with_name("out"))):
        try:
            report = read(path)
        except bp.exceptions.FormatError as err:
            assert "1073741824 chunks or groups" in str(err)  # noqa: PT017
        else:
            assert not report.ok


@pytest.mark.parametrize("verify", [True, False, "always"])
@pytest.mark.parametrize("offset", [0, 64, layout.DATA_OFFSET - 1, 1 << 20, 1 << 63, 2**64 - 1])
@pytest.mark.parametrize("nbytes", [0, 1, 20, 2**32 - 1])
def test_hostile_rows(path: Path, verify: Any, offset: int, nbytes: int) -> None:
    bp.save(path, np.arange(4), changeable=True)
    file = path.read_bytes()
    commit = layout.Commit.unpack(file, layout.SLOTS[1])
    assert commit is not None
    root = commit.groups.root
    (node,) = layout.unpack_group(file[root.offset : root.end])
    wrong = layout.Tree(layout.Row(offset, nbytes, bytes(8)), 0, 1)
    group = node._replace(chunks=wrong).pack()
    digest = xxhash.xxh3_64_digest(group)
    for end in (commit.end, 2**64 - 1):
        groups = layout.Tree(layout.Row(root.offset, len(group), digest), 0, 1)
        packed = commit._replace(end=end, groups=groups).pack()
        path.write_bytes(file[: root.offset] + group)
        with path.open("r+b") as out:
            for at in layout.SLOTS:
                out.seek(at)
                out.write(packed)
        with pytest.raises(bp.exceptions.FormatError), bp.open(path, verify=verify) as a:
            a[...]
        assert not bp.verify(path).ok
        with pytest.raises(bp.exceptions.BloscpackError), bp.open(path, "r+") as a:
            a[1] = 5


def test_a_damaged_chunk_that_is_replaced_is_not_read(path: Path) -> None:
    x = np.arange(3000.0)
    bp.save(path, x, chunks=100, changeable=True)
    with bp.open(path) as a:
        offset = a.chunk_offset(7)
    file = bytearray(path.read_bytes())
    file[offset + 30] ^= 1
    path.write_bytes(file)
    with bp.open(path, "r+") as a:
        with pytest.raises(bp.exceptions.ChecksumMismatch, match="chunk 7"):
            a[750] = 0
        with pytest.raises(ValueError, match="a change has failed before"):
            a[0] = 0
    with bp.open(path, "r+") as a:
        a[700:800] = x[700:800] = -1
    assert bp.verify(path).ok
    _check_equal(bp.load(path), x)


def test_a_read_and_a_change_wait_for_each_other(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Space of a chunk may be used again while another thread reads it."""
    bp.save(path, np.arange(60.0).reshape(20, 3), chunks=4)
    gather, done = array.gather, threading.Event()

    def change() -> None:
        a[:] = 0
        a.flush()
        done.set()

    def slow(*args: Any, **options: Any) -> Any:
        if not threads:
            threads.append(threading.Thread(target=change))
            threads[0].start()
            done.wait(0.1)
            assert not done.is_set()
        return gather(*args, **options)

    monkeypatch.setattr(array, "gather", slow)
    for read in (lambda: a[2:9], lambda: a.read(slice(2, 9)), lambda: a.oindex[2:9]):
        threads: list[threading.Thread] = []
        done.clear()
        with bp.open(path, "r+") as a:
            a[:] = 7
            a.flush()
            assert (read() == 7).all()
            threads[0].join()
            assert not a[:].any()


@pytest.mark.parametrize("chunks", [2, 3, (2, 5), None])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("changeable", [False, True])
def test_rows_are_changed_while_they_are_iterated(
    path: Path, chunks: Any, order: str, changeable: bool
) -> None:
    array = np.asarray(np.arange(60).reshape(6, 10), order=order)  # type: ignore[call-overload]
    bp.save(path, array, chunks=chunks, changeable=changeable)
    with bp.open(path, "r+") as a:
        for index, row in enumerate(a):
            assert np.array_equal(row, array[index])
            a[index] = -row
            a.flush()  # the first one replaces a file that was never changed
            if order == "C":
                a.append(row)
        assert index == 5
        assert np.array_equal(a[:6], -array)
        for _ in a:
            if order == "C":
                a.resize((2, 10))
        rows = iter(a)
        next(rows)
    with pytest.raises(ValueError, match="closed"):
        next(rows)


def _scattered(path: Path) -> np.ndarray[Any, Any]:
    """Save an array of 300 chunks, change every third one, each in a commit, and return it."""
    array = np.arange(300 * 50).reshape(300, 50)
    bp.save(path, array, chunks=1)
    with bp.open(path, "r+") as a:
        for row in range(0, 300, 3):
            a[row] = array[row] = -array[row]
            a.flush()
    return array


def test_all_chunks_of_a_changed_file_are_read_by_few_calls(path: Path) -> None:
    array = _scattered(path)
    source = CountingBytes(path.read_bytes())
    with bp.open(source, nthreads=1) as a:  # type: ignore[arg-type]
        del source.reads[:]
        assert np.array_equal(a[:], array)
    assert len(source.reads) <= 6  # a page, and for each of four runs the neighbours in it


@pytest.mark.parametrize("row", [0, 151, 299])
def test_a_damaged_chunk_among_neighbours_is_found(path: Path, row: int) -> None:
    array = _scattered(path)
    with bp.open(path) as a:
        offset = a.chunk_offset(row)
    stored = bytearray(path.read_bytes())
    stored[offset + 30] ^= 1
    path.write_bytes(stored)
    with pytest.raises(ChecksumMismatch, match=f"chunk {row} at offset {offset}") as caught:
        bp.load(path)
    assert caught.value.index == row
    array[row] = 0
    with pytest.warns(BloscpackWarning):
        assert np.array_equal(bp.load(path, on_error="fill"), array)


def test_changes_in_the_file_are_read_before_they_are_committed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = _scattered(path)
    with bp.open(path, "r+") as a:
        monkeypatch.setattr(changes, "_HELD_NBYTES", 0)
        a[10:20] = array[10:20] = 7
        assert np.array_equal(a[:], array)
        a.flush()
        a[15] = array[15] = 8
        assert np.array_equal(a[:], array)
