"""Arrays written in parts: any split gives the bytes of `save`; invalid parts are refused."""

import pickle
import random
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.array import layout
from bloscpack.array.parts import PartsJob
from bloscpack.exceptions import ObjectNumpyArrayRejection, UnsupportedError
from bloscpack.format.checksum import CHECKSUMS
from bloscpack.format.codec import CODECS
from bloscpack.keywords import nbytes_of

from ..strategies import SCALARS, AnyArray, fill

SHAPE = (23, 4, 3)


def rows_of(array: AnyArray, job: PartsJob, start: int, stop: int) -> AnyArray:
    return array[(slice(None),) * job.axis + (slice(start, stop),)] if array.ndim else array


def written(
    path: Path, array: AnyArray, ranges: list[tuple[int, int]] | None = None, **options: Any
) -> PartsJob:
    """Write an array in parts, in a random order, and commit them."""
    order = "F" if layout.is_fortran(array) else "C"
    job = bp.parts(path, shape=array.shape, dtype=array.dtype, order=order, sample=array, **options)
    if ranges is None:
        ranges = job.split(1)
    random.Random(1).shuffle(ranges)
    records = [job.write(start, rows_of(array, job, start, stop)) for start, stop in ranges]
    job.commit(records)
    return job


def check_same(folder: Path, array: AnyArray, **options: Any) -> None:
    """Check that parts form the file that `save` writes, and that nothing else remains."""
    written(folder / "parts.blp", array, **options)
    bp.save(folder / "saved.blp", array, **options)
    assert (folder / "parts.blp").read_bytes() == (folder / "saved.blp").read_bytes()
    assert sorted(path.name for path in folder.iterdir()) == ["parts.blp", "saved.blp"]


# Casts that numpy calls safe although values, or the names of fields, would change.
LOSSY = [
    (np.array([(1, 2)] * 2, [("y", "f4"), ("x", "f4")]), [("x", "f4"), ("y", "f4")]),
    (
        np.array([((1, 2),)] * 2, [("p", [("y", "f4"), ("x", "f4")])]),
        [("p", [("x", "f4"), ("y", "f4")])],
    ),
    (np.array([1, 2**53 + 1]), "f8"),
    (np.array([1, 2**63 - 1]), "c16"),
    (np.array([1, 2**64 - 1], "u8"), ">f8"),
    (np.array(["2020", "3000"], "M8[s]"), "M8[ns]"),
]
EXACT = [
    (np.array([-(2**63), 2**53], ">i8"), "<f8"),
    (np.array([1, 2**63], "u8"), "c16"),
    (np.array(["2020", "NaT"], "M8[s]"), "M8[ns]"),
    (np.array([(1, 2)] * 2, [("x", "i2"), ("y", "f4")]), [("x", "i4"), ("y", "f8")]),
    (np.array([("a", 2)] * 2, [("x", "U1"), ("y", "f4")]), [("x", "U2"), ("y", "f4")]),
]


@pytest.fixture
def job(tmp_path: Path) -> PartsJob:
    """Job of 8 chunks of 3 rows each, the last of 2."""
    return bp.parts(tmp_path / "a.blp", shape=SHAPE, dtype="i4", chunks=3)


@pytest.fixture
def array() -> AnyArray:
    return fill(np.dtype("i4"), SHAPE, 7)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [*SCALARS, [("a", ">i2"), ("b", "S3", (2,))]], ids=str)
def test_every_dtype(dtype: Any, order: Any, tmp_path: Path) -> None:
    array = np.asarray(fill(np.dtype(dtype), SHAPE, 3), order=order)
    check_same(tmp_path, array, chunks=3)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("shuffle", ["none", "byte", "bit", "auto"])
def test_every_codec(codec: str, shuffle: str, array: AnyArray, tmp_path: Path) -> None:
    check_same(tmp_path, array, codec=codec, shuffle=shuffle, chunks=5, clevel=9)


@pytest.mark.parametrize("checksum", [None, *(row.name for row in CHECKSUMS)])
def test_every_checksum(checksum: str | None, array: AnyArray, tmp_path: Path) -> None:
    check_same(tmp_path, array, checksum=checksum, chunks=4, attrs={"unit": "m"})


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "shape", [(), (0,), (1,), (0, 3), (3, 0), (5,), (1, 9), (9, 1), (1, 7, 1), (4, 5), (2, 3, 4)]
)
def test_every_shape(shape: tuple[int, ...], order: Any, tmp_path: Path) -> None:
    array = np.asarray(fill(np.dtype("<f8"), shape, 5), order=order)
    check_same(tmp_path, array)
    if shape:
        check_same(tmp_path, array, chunks=2)


@pytest.mark.parametrize("order", ["C", "F"])
def test_blocks_are_chosen_by_the_sample(order: Any, tmp_path: Path) -> None:
    """Only the sampled rows, in the middle, justify small blocks, so they decide the block size."""
    array = np.asarray(np.arange(1200 * 1000, dtype="f4").reshape(1200, 1000), order=order)
    middle = (slice(None),) * (order == "F") + (slice(500, 700),)
    array[middle] = np.random.default_rng(3).integers(0, 1000, array[middle].shape)
    check_same(tmp_path, array, chunks=100)
    job = PartsJob(tmp_path / "a", shape=array.shape, dtype="f4", chunks=100, order=order)
    assert job._params.blocksize == 0
    assert job.sample_rows is not None
    start, stop = job.sample_rows
    assert stop - start < 60
    chosen = job.with_blocks_for(rows_of(array, job, start, stop))
    assert chosen._params.blocksize > 0
    assert (job._params.blocksize, chosen.sample_rows) == (0, None)
    assert chosen.with_blocks_for(None) is chosen
    with pytest.raises(ValueError, match=f"expected rows {start} to {stop}"):
        job.with_blocks_for(rows_of(array, job, start, stop - 1))


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_sample_is_that_of_save(order: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """Both take the same sample, also if chunks cut rows (here 24 KiB) and it starts inside one."""
    seen: list[bytes] = []

    def noting(params: Any, sample: Any, *_: Any, **options: Any) -> Any:
        seen.append(bytes(sample))
        return params

    monkeypatch.setattr(layout, "with_small_blocks", noting)
    monkeypatch.setattr(sys.modules[PartsJob.__module__], "with_small_blocks", noting)
    monkeypatch.setattr(layout, "_MAX_ROW_NBYTES", 4 << 10)
    monkeypatch.setattr(layout, "TARGET_CHUNK_NBYTES", 16 << 10)
    shape = (183, 6 << 10) if order == "C" else (6 << 10, 183)
    array = np.asarray(fill(np.dtype("u4"), shape, 1), order=order)
    check_same(tmp_path, array)
    assert len(seen) == 2
    assert seen[0] == seen[1]
    job = PartsJob(tmp_path / "a", shape=array.shape, dtype="u4", order=order)
    assert (job.rows_per_chunk, job.sample_rows) == (2, (91, 92))


def test_chunks_that_cut_rows(tmp_path: Path) -> None:
    """A row is 1.5 chunks, so a part is at least 2 rows (3 chunks)."""
    array = np.zeros((5, 12 << 10, 1 << 10), "u1")  # rows of 12 MiB would be one chunk
    job = PartsJob(tmp_path / "a", shape=array.shape, dtype="u1")
    assert (job.rows_per_chunk, job.nchunks) == (1, 5)
    big = PartsJob(tmp_path / "a", shape=(5, 96 << 20), dtype="u1")
    assert (big.rows_per_chunk, big.nchunks) == (1, 5 * 96)
    odd = PartsJob(tmp_path / "a", shape=(5, (96 << 20) + (1 << 19)), dtype="u1")
    assert odd.rows_per_chunk == 2
    assert odd.split(1) == [(0, 2), (2, 4), (4, 5)]


@pytest.mark.parametrize("nthreads", [1, 3])
def test_threads_change_nothing(nthreads: int, tmp_path: Path) -> None:
    array = np.arange(3 << 20, dtype="i4").reshape(-1, 64)
    saved = tmp_path / "saved.blp"
    bp.save(saved, array, nthreads=1)
    job = bp.parts(tmp_path / "a.blp", shape=array.shape, dtype=array.dtype, sample=array)
    records = [job.write(a, array[a:b], nthreads=nthreads) for a, b in job.split("5 MiB")]
    calls: list[tuple[int, int]] = []
    job.commit(records, nthreads=nthreads, progress=lambda *args: calls.append(args))
    assert (tmp_path / "a.blp").read_bytes() == saved.read_bytes()
    assert len(calls) == len(records) == 3
    assert calls[-1][0] == calls[-1][1] == sum(record.nbytes for record in records)


@given(data=st.data())
def test_every_split(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("split")
    shape = tuple(data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=3)))
    order = data.draw(st.sampled_from("CF"))
    array = np.asarray(fill(np.dtype("<u2"), shape, 1), order=order)
    fortran = layout.is_fortran(array)
    job = PartsJob(
        folder / "a.blp",
        shape=shape,
        dtype="u2",
        chunks=data.draw(st.integers(1, 13)),
        order="F" if fortran else "C",
    ).begin()
    starts = range(0, job.nrows, job.rows_per_chunk)
    cuts = sorted({0, job.nrows, *data.draw(st.lists(st.sampled_from(starts)))})
    ranges = list(pairwise(cuts))
    records = [job.write(a, rows_of(array, job, a, b)) for a, b in ranges]
    twice = data.draw(st.lists(st.sampled_from(ranges), max_size=3))
    records += [job.write(a, rows_of(array, job, a, b)) for a, b in twice]
    job.commit(data.draw(st.permutations(records)))
    assert np.array_equal(bp.load(folder / "a.blp"), array)
    assert bp.verify(folder / "a.blp").trailer == "valid"


def test_a_worker_needs_only_the_job(tmp_path: Path, array: AnyArray, monkeypatch: Any) -> None:
    """The pickle is small and independent of the working directory."""
    monkeypatch.chdir(tmp_path)
    bp.save("saved.blp", array, chunks=3, attrs={"a": [1, 2]}, checksum="sha512")
    job = bp.parts(
        "a.blp", shape=SHAPE, dtype="i4", chunks=3, attrs={"a": [1, 2]}, checksum="sha512"
    )
    sent = pickle.dumps(job)
    assert len(sent) < 1500
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    records = [pickle.loads(sent).write(a, array[a:b]) for a, b in job.split(1)]
    assert len(pickle.dumps(records[0])) < 400
    pickle.loads(sent).commit(pickle.loads(pickle.dumps(records)))
    assert (tmp_path / "a.blp").read_bytes() == (tmp_path / "saved.blp").read_bytes()


def test_a_record_grows_by_twelve_bytes_a_chunk(tmp_path: Path) -> None:
    job = bp.parts(tmp_path / "a.blp", shape=(1000, 10), dtype="u1", chunks=1)
    small, large = job.write(0, np.zeros((1, 10), "u1")), job.write(0, np.zeros((900, 10), "u1"))
    assert len(pickle.dumps(large)) - len(pickle.dumps(small)) < 900 * 12 + 50
    assert (large.nchunks, large.start, large.stop) == (900, 0, 900)
    job.abort()


@pytest.mark.parametrize(
    ("start", "count", "found"),
    [(1, 3, "rows 1 to 4"), (0, 4, "rows 0 to 4"), (2, 21, "rows 2 to 23"), (3, 2, "rows 3 to 5")],
)
def test_slices_that_are_not_whole_chunks(
    job: PartsJob, array: AnyArray, start: int, count: int, found: str
) -> None:
    with pytest.raises(ValueError, match=f"{found} are not whole chunks.* multiples of 3 rows"):
        job.write(start, array[start : start + count])


@pytest.mark.parametrize(
    ("start", "rows", "error", "match"),
    [
        (-3, np.zeros((3, 4, 3), "i4"), ValueError, "rows -3 to 0 are outside the array of 23"),
        (21, np.zeros((3, 4, 3), "i4"), ValueError, "rows 21 to 24 are outside the array of 23"),
        (0, np.zeros((0, 4, 3), "i4"), ValueError, "rows 0 to 0"),
        (0, np.zeros((3, 4), "i4"), ValueError, r"shape \(3, 4\)"),
        (0, np.zeros((3, 4, 4), "i4"), ValueError, "along axis 0 only"),
        (0, np.int32(3), ValueError, r"shape \(\)"),
        (0, np.zeros((3, 4, 3), "i8"), TypeError, "int64, which cannot be cast to int32"),
        (0, np.zeros((3, 4, 3), "f4"), TypeError, "cannot be cast"),
        (0.0, np.zeros((3, 4, 3), "i4"), TypeError, "start must be an integer row number"),
        (True, np.zeros((3, 4, 3), "i4"), TypeError, "start must be an integer row number"),
    ],
)
def test_rows_that_do_not_fit(
    job: PartsJob, start: Any, rows: Any, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        job.write(start, rows)


def test_rows_are_cast_without_loss(tmp_path: Path) -> None:
    for dtype in ("i2", ">i4", "u1"):
        job = bp.parts(tmp_path / "a.blp", shape=(4,), dtype="<i4")
        job.commit([job.write(0, np.arange(4, dtype=dtype))])
        assert bp.load(tmp_path / "a.blp").tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("rows", "dtype"), LOSSY)
def test_rows_that_numpy_would_change_are_refused(tmp_path: Path, rows: Any, dtype: Any) -> None:
    job = bp.parts(tmp_path / "a.blp", shape=(2,), dtype=dtype)
    with pytest.raises(TypeError, match="without loss"):
        job.write(0, rows)
    bp.save(tmp_path / "b.blp", np.zeros(2, dtype))
    with bp.open(tmp_path / "b.blp", "a") as a, pytest.raises(TypeError, match="without loss"):
        a.append(rows)
    assert (bp.load(tmp_path / "b.blp") == np.zeros(2, dtype)).all()


@pytest.mark.parametrize(("rows", "dtype"), EXACT)
def test_rows_that_numpy_casts_exactly_are_taken(tmp_path: Path, rows: Any, dtype: Any) -> None:
    job = bp.parts(tmp_path / "a.blp", shape=(2,), dtype=dtype)
    job.commit([job.write(0, rows)])
    expected = rows.astype(dtype)
    assert bp.load(tmp_path / "a.blp").tobytes() == expected.tobytes()
    with bp.open(tmp_path / "a.blp", "a") as a:
        a.append(rows)
    assert bp.load(tmp_path / "a.blp").tobytes() == 2 * expected.tobytes()


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"shape": (3, -1)}, ValueError, "shape must be"),
        ({"shape": (3, True)}, ValueError, "shape must be"),
        ({"shape": (3, 2.0)}, ValueError, "shape must be"),
        ({"dtype": object}, ObjectNumpyArrayRejection, "object"),
        ({"order": "K"}, ValueError, "order must be"),
        ({"codec": "best"}, ValueError, "codec 'best'"),
        ({"checksum": "best"}, ValueError, "checksum 'best'"),
        ({"chunks": 0}, ValueError, "at least one row"),
        ({"id": ""}, ValueError, "id must be"),
        ({"id": "../a"}, ValueError, "id must be"),
        ({"id": "a" * 65}, ValueError, "id must be"),
        ({"id": 3}, ValueError, "id must be"),
        ({"path": 3}, TypeError, "path must be"),
        ({"path": "http://localhost/a.blp"}, UnsupportedError, "localhost/a.blp: nothing can be"),
        ({"storage_options": {"anon": True}}, ValueError, "storage_options are for URLs"),
        ({"path": "missing/a.blp"}, FileNotFoundError, "missing/a.blp"),
        ({"path": "."}, IsADirectoryError, "directory"),
    ],
)
def test_arguments(
    options: dict[str, Any], error: type[Exception], match: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=match):
        bp.parts(**{"path": "a.blp", "shape": (3, 2), "dtype": "u1", **options})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        (1, 1),
        ("7", 7),
        ("64 MiB", 64 << 20),
        ("64MB", 64_000_000),
        ("1.5 GiB", 3 << 29),
        ("512k", 512_000),
        ("2Ki", 2048),
        (" 3 B ", 3),
        ("1 TiB", 1 << 40),
    ],
)
def test_sizes(text: int | str, nbytes: int) -> None:
    assert nbytes_of(text) == nbytes


@pytest.mark.parametrize("text", ["", "MiB", "-1 MB", "1 PB", "1e6", "0", 0, -5, "64 MiB!", "٣"])
def test_no_sizes(text: int | str) -> None:
    with pytest.raises(ValueError, match="size"):
        nbytes_of(text)


@pytest.mark.parametrize("size", [1.5, None, True])
def test_sizes_of_other_types(size: Any) -> None:
    with pytest.raises(TypeError, match="a size must be"):
        nbytes_of(size)


def test_split(job: PartsJob) -> None:
    assert job.rows_per_chunk == 3
    assert job.split(1) == [(start, min(start + 3, 23)) for start in range(0, 23, 3)]
    assert job.split(9 * 48) == [(0, 9), (9, 18), (18, 23)]
    assert job.split(10 * 48) == job.split(9 * 48)
    assert job.split() == [(0, 23)]
    assert repr(job) == (
        f"<bloscpack.PartsJob {job.path!r} shape=(23, 4, 3) dtype=int32 rows_per_chunk=3 "
        f"id={job.id!r}>"
    )


@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_of_too_few_axes(order: Any, tmp_path: Path) -> None:
    job = bp.parts(tmp_path / "a.blp", shape=(20, 3), dtype="f8", order=order)
    with pytest.raises(ValueError, match=r"rows have shape \(3,\)"):
        job.write(0, np.arange(3.0))
    job.abort()
