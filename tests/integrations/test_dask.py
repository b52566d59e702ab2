"""Dask arrays from files and to files, on threads: equal values, equal bytes, few tasks."""

import gc
import os
import pickle
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array", reason="dask has no arrays here")

from dask.callbacks import Callback  # noqa: E402
from dask.diagnostics import ProgressBar  # noqa: E402

import bloscpack as bp  # noqa: E402
from bloscpack.array.daskparts import _begin, _end, _join, _write  # noqa: E402
from bloscpack.exceptions import ChecksumMismatch, FileChangedError, NotFoundError  # noqa: E402
from bloscpack.format.codec import CodecError  # noqa: E402
from bloscpack.integrations.dask import from_bloscpack, map_clips, save  # noqa: E402

from ..openfiles import open_files  # noqa: E402
from ..strategies import AnyArray, fill  # noqa: E402

pytestmark = pytest.mark.usefixtures("two_threads")


class TaskRecorder(Callback):  # type: ignore[misc]
    """Records the tasks that run, by the callbacks of Dask's own progress bar."""

    def __init__(self) -> None:
        super().__init__(pretask=self._note)
        self.names: list[str] = []

    def _note(self, key: Any, *_: Any) -> None:
        self.names.append(key[0] if isinstance(key, tuple) else key)

    def count(self, prefix: str) -> int:
        return sum(name.startswith(prefix) for name in self.names)


@pytest.fixture
def array() -> AnyArray:
    return fill(np.dtype("i4"), (100, 30), 1)


@pytest.fixture
def path(tmp_path: Path, array: AnyArray) -> Path:
    bp.save(tmp_path / "a.blp", array, chunks=8)
    return tmp_path / "a.blp"


class TestFrom:
    @pytest.mark.parametrize(
        ("block", "rows"),
        [(1, 8), (960, 8), (1919, 8), (1920, 16), ("3 KB", 24), ("1 MiB", 100)],
    )
    def test_blocks_are_whole_chunks(
        self, path: Path, array: AnyArray, block: Any, rows: int
    ) -> None:
        x = from_bloscpack(path, block)
        assert (x.shape, x.dtype) == (array.shape, array.dtype)
        assert x.chunks[0][:-1] == (rows,) * ((100 - 1) // rows)
        assert x.chunks[1] == (30,)
        assert np.array_equal(x.compute(), array)
        assert np.array_equal(x[90:3:-7, ::2].compute(), array[90:3:-7, ::2])

    @pytest.mark.parametrize("order", ["C", "F"])
    @pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1), (7,), (5, 4, 3)], ids=str)
    def test_shapes(self, shape: tuple[int, ...], order: Any, tmp_path: Path) -> None:
        array = np.asarray(fill(np.dtype("f8"), shape, 1), order=order)
        bp.save(tmp_path / "a.blp", array, chunks=2 if shape else None)
        x = from_bloscpack(tmp_path / "a.blp", 1)
        assert x.shape == shape
        assert np.array_equal(x.compute(), array)

    def test_fortran_order_is_cut_along_the_last_axis(self, tmp_path: Path) -> None:
        array = np.asfortranarray(fill(np.dtype("i2"), (6, 5, 40), 1))
        bp.save(tmp_path / "a.blp", array, chunks=7)
        x = from_bloscpack(tmp_path / "a.blp", 7 * 60)
        assert x.chunks == ((6,), (5,), (7, 7, 7, 7, 7, 5))
        assert np.array_equal(x.compute(), array)

    def test_chunks_that_are_not_whole_rows(self, tmp_path: Path, array: AnyArray) -> None:
        """Blocks of a file of another program have as many rows as fit; some chunks are in two."""
        bp.pack_ndarray_to_file(array, tmp_path / "a.blp", chunk_size=1000)
        x = from_bloscpack(tmp_path / "a.blp", 1300)
        assert x.chunks[0] == (10,) * 10
        assert np.array_equal(x.compute(), array)
        # 25 rows are 3 chunks.
        assert from_bloscpack(tmp_path / "a.blp", 3000).chunks[0] == (25,) * 4

    def test_a_chunk_larger_than_a_block(self, tmp_path: Path, array: AnyArray) -> None:
        bp.save(tmp_path / "a.blp", array, chunks=40)
        assert from_bloscpack(tmp_path / "a.blp", 1).chunks[0] == (40, 40, 20)

    def test_names_are_those_of_the_content(self, path: Path, array: AnyArray) -> None:
        first, again = from_bloscpack(path, 2000), from_bloscpack(str(path), 2000)
        assert first.name == again.name
        with bp.open(path) as opened:
            assert from_bloscpack(opened, 2000).name == first.name
            assert dask.base.tokenize(opened) == dask.base.tokenize(bp.open(path))
        assert from_bloscpack(path, 3000).name != first.name
        (path.parent / "b.blp").write_bytes(path.read_bytes())
        assert from_bloscpack(path.parent / "b.blp", 2000).name != first.name
        os.utime(path, ns=(1, 1))
        assert from_bloscpack(path, 2000).name == first.name
        bp.save(path, array, chunks=8, attrs={"a": 1})
        assert from_bloscpack(path, 2000).name != first.name
        bp.save(path, array, chunks=8)
        assert from_bloscpack(path, 2000).name == first.name

    def test_names_of_files_without_a_trailer(self, tmp_path: Path, array: AnyArray) -> None:
        path = tmp_path / "a.blp"
        bp.pack_ndarray_to_file(array, path)
        name = from_bloscpack(path).name
        assert from_bloscpack(path).name == name
        os.utime(path, ns=(1, 1))
        assert from_bloscpack(path).name != name

    def test_names_of_bytes(self, path: Path) -> None:
        data = path.read_bytes()
        x = from_bloscpack(data)
        assert x.name == from_bloscpack(bytearray(data)).name
        assert x.name != from_bloscpack(data + b"more").name
        assert np.array_equal(x.compute(), bp.load(path))

    def test_a_url(self, path: Path, array: AnyArray) -> None:
        fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
        url = f"memory://{path}"
        fsspec.filesystem("memory").pipe(url, path.read_bytes())
        x = from_bloscpack(url, 2000)
        assert x.name == from_bloscpack(url, 2000).name
        assert np.array_equal(x.compute(), array)
        fsspec.filesystem("memory").pipe(url, path.read_bytes())
        assert from_bloscpack(url, 2000).name != x.name  # of another version
        fsspec.filesystem("memory").rm(url)

    def test_arrays_that_cannot_be_sent(self, path: Path) -> None:
        with path.open("rb") as stream, pytest.raises(TypeError, match="file object"):
            from_bloscpack(stream)
        with bp.open(path, "a") as a, pytest.raises(TypeError, match="appending"):
            from_bloscpack(a)
        with path.open("rb") as stream, bp.open(stream) as b:
            assert dask.base.tokenize(b) != dask.base.tokenize(b)

    def test_a_log(self, path: Path, array: AnyArray) -> None:
        with bp.open(path, "r+") as a:
            a[20:30] = array[20:30] = 7
            a.flush()
            x = from_bloscpack(path, 2000)
            assert np.array_equal(x.compute(), array)
            assert x.name == from_bloscpack(path, 2000).name
            a[30:] = 8
        with pytest.raises(FileChangedError):
            pickle.loads(pickle.dumps(x)).compute()
        assert from_bloscpack(path, 2000).name != x.name

    def test_damage(self, path: Path) -> None:
        data = bytearray(path.read_bytes())
        with bp.open(path) as a:
            data[a.chunk_offset(3) + 40] ^= 1
        path.write_bytes(data)
        x = from_bloscpack(path, 1)
        with pytest.raises((ChecksumMismatch, CodecError), match="chunk 3"):
            x.compute()
        assert x[:24].compute().shape == (24, 30)

    def test_a_file_that_was_replaced(self, path: Path, array: AnyArray) -> None:
        """An open handle reads the old file; reopening in another process raises an error."""
        x = from_bloscpack(path, 1)
        sent = pickle.dumps(x)
        assert np.array_equal(pickle.loads(sent).compute(), array)
        bp.save(path, array + 1)
        assert np.array_equal(x.compute(), array)
        with pytest.raises(FileChangedError, match="has changed"):
            pickle.loads(sent).compute()


class TestSave:
    @pytest.mark.parametrize("dtype", ["?", "u1", ">i4", "f8", "c8", "S5", "<U3", "<M8[ns]", "V7"])
    @pytest.mark.parametrize("order", ["C", "F"])
    def test_the_bytes_of_save(self, dtype: str, order: Any, tmp_path: Path) -> None:
        array = np.asarray(fill(np.dtype(dtype), (23, 4, 3), 3), order=order)
        x = da.from_array(array, chunks=(6, 4, 3) if order == "C" else (23, 4, 1))
        options: dict[str, Any] = {"chunks": 2, "attrs": {"a": 1}, "codec": "lz4"}
        assert save(x, tmp_path / "x.blp", order=order, **options) == str(tmp_path / "x.blp")
        bp.save(tmp_path / "a.blp", array, **options)
        assert (tmp_path / "x.blp").read_bytes() == (tmp_path / "a.blp").read_bytes()
        assert sorted(os.listdir(tmp_path)) == ["a.blp", "x.blp"]

    @pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0), (1,), (7, 2)], ids=str)
    def test_shapes(self, shape: tuple[int, ...], tmp_path: Path) -> None:
        array = fill(np.dtype("f4"), shape, 2)
        save(da.from_array(array, chunks=2), tmp_path / "x.blp")
        bp.save(tmp_path / "a.blp", array)
        assert (tmp_path / "x.blp").read_bytes() == (tmp_path / "a.blp").read_bytes()

    @pytest.mark.parametrize(
        ("given", "parts"),
        [
            ((100, 30), (100,)),
            ((16, 30), (16, 16, 16, 16, 16, 16, 4)),
            ((24, 30), (24, 24, 24, 24, 4)),
            ((25, 30), (32, 24, 24, 20)),
            ((1, 30), (8,) * 12 + (4,)),
            (((3, 2, 50, 45), 30), (8, 48, 44)),
            ((24, 10), (16,) * 6 + (4,)),
        ],
        ids=str,
    )
    def test_blocks(
        self, given: Any, parts: Any, array: AnyArray, path: Path, monkeypatch: Any
    ) -> None:
        """Blocks of whole chunks stay, borders of others move, and other arrays are rechunked."""
        x = da.from_array(array, chunks=given)
        written: list[tuple[int, int]] = []
        write = bp.PartsJob.write

        def noting(self: bp.PartsJob, start: int, rows: AnyArray) -> Any:
            written.append((start, len(rows)))
            return write(self, start, rows)

        monkeypatch.setattr(bp.PartsJob, "write", noting)
        save(x, path.parent / "x.blp", chunks=8, block=2000)
        assert (path.parent / "x.blp").read_bytes() == path.read_bytes()
        assert [count for _, count in sorted(written)] == list(parts)

    def test_a_block_is_one_task(self, path: Path, array: AnyArray) -> None:
        """One task reads, computes and writes a block, so that no block waits in memory."""
        with TaskRecorder() as tasks_run:
            save(from_bloscpack(path, 2000) * 2 + 1, path.parent / "x.blp", chunks=8)
        assert np.array_equal(bp.load(path.parent / "x.blp"), array * 2 + 1)
        assert tasks_run.count("bloscpack-write") == 7
        # Other tasks: begin, the source, the joined records, join and end.
        assert len(tasks_run.names) == 7 + 5

    def test_the_sample_is_of_the_rows_in_the_middle(self, tmp_path: Path) -> None:
        array = np.arange(1200 * 1000, dtype="f4").reshape(1200, 1000)
        array[500:700] = np.random.default_rng(3).integers(0, 1000, (200, 1000))
        computed: list[int] = []

        def record_length(rows: AnyArray) -> AnyArray:
            computed.append(len(rows))
            return rows

        x = da.from_array(array, chunks=(100, 1000)).map_blocks(
            record_length, dtype="f4", meta=array[:0]
        )
        bp.save(tmp_path / "a.blp", array, chunks=50)
        save(x, tmp_path / "x.blp", chunks=50)
        assert (tmp_path / "x.blp").read_bytes() == (tmp_path / "a.blp").read_bytes()
        assert computed == [100] * 13  # one of them for the sample
        delayed = save(x, tmp_path / "y.blp", chunks=50, compute=False)
        with TaskRecorder() as tasks_run:
            assert delayed.compute() == str(tmp_path / "y.blp")
        assert (tasks_run.count("_begin"), tasks_run.count("_join")) == (1, 1)
        assert computed == [100] * 26
        assert (tmp_path / "y.blp").read_bytes() == (tmp_path / "a.blp").read_bytes()

    def test_nothing_waits_for_the_sample(self, tmp_path: Path) -> None:
        """Only the blocks of the sample are computed before the place for parts exists."""
        x = da.zeros((1200, 1000), chunks=(170, 1000), dtype="f4")
        with TaskRecorder() as tasks_run:
            save(x, tmp_path / "x.blp", chunks=50)
        assert (
            tasks_run.names.index(next(n for n in tasks_run.names if n.startswith("_begin"))) <= 2
        )

    def test_delayed(self, path: Path, array: AnyArray, tmp_path: Path) -> None:
        """No file exists before it is computed; it composes, and may be computed twice."""
        delayed = save(from_bloscpack(path), tmp_path / "x.blp", compute=False, chunks=8)
        assert os.listdir(tmp_path) == ["a.blp"]
        total = dask.delayed(lambda name: bp.load(name).sum())(delayed)
        assert total.compute() == array.sum()
        before = (tmp_path / "x.blp").stat().st_ino
        assert delayed.compute() == str(tmp_path / "x.blp")
        assert (tmp_path / "x.blp").stat().st_ino != before
        assert (tmp_path / "x.blp").read_bytes() == path.read_bytes()
        assert sorted(os.listdir(tmp_path)) == ["a.blp", "x.blp"]

    def test_the_progress_bar_of_dask(self, path: Path, tmp_path: Path, capsys: Any) -> None:
        with ProgressBar():
            save(from_bloscpack(path), tmp_path / "x.blp")
        assert "[####" in capsys.readouterr().out

    def test_an_error_leaves_nothing(self, path: Path, array: AnyArray, tmp_path: Path) -> None:
        seen = []

        def fails(rows: AnyArray, block_info: Any = None) -> AnyArray:
            seen.append(block_info)
            if block_info[0]["chunk-location"][0] == 5:
                raise ZeroDivisionError
            return rows

        x = from_bloscpack(path, 1).map_blocks(fails, dtype="i4", meta=array[:0])
        with pytest.raises(ZeroDivisionError):
            save(x, tmp_path / "x.blp", chunks=8)
        assert seen
        assert os.listdir(tmp_path) == ["a.blp"]
        with pytest.raises(ZeroDivisionError):
            save(x, tmp_path / "x.blp", chunks=8, compute=False, id="mine").compute()
        assert len(os.listdir(tmp_path)) == 2
        bp.PartsJob(tmp_path / "x.blp", shape=(), dtype="u1", id="mine").abort()
        assert os.listdir(tmp_path) == ["a.blp"]

    def test_tasks_that_run_again(self, path: Path, array: AnyArray, tmp_path: Path) -> None:
        """A cluster that loses a worker runs tasks again; after the job failed they are late."""
        target = tmp_path / "x.blp"
        job = bp.PartsJob(target, shape=array.shape, dtype="i4", chunks=8)
        info = [{"array-location": [(0, 100), (0, 30)]}]
        begun = _begin(job, None)
        for _ in range(3):  # the last task was lost in the middle, with all records
            assert _end(job, _join(job, _write(array, begun, info))) == str(target)
            assert target.read_bytes() == path.read_bytes()
        with pytest.raises(FileNotFoundError, match="committed or aborted"):
            _write(array, (job, None), info)
        begun = _begin(job, None)
        _write(array, begun, info)
        job.abort()
        with pytest.raises(FileNotFoundError, match="committed or aborted"):
            _write(array, begun, info)
        assert sorted(os.listdir(tmp_path)) == ["a.blp", "x.blp"]

    def test_an_interrupt_leaves_nothing(self, path: Path, tmp_path: Path) -> None:
        def interrupts(rows: AnyArray) -> AnyArray:
            raise KeyboardInterrupt

        x = from_bloscpack(path, 1).map_blocks(interrupts, dtype="i4", meta=np.empty((0, 0), "i4"))
        with dask.config.set(scheduler="synchronous"), pytest.raises(KeyboardInterrupt):
            save(x, tmp_path / "x.blp")
        assert os.listdir(tmp_path) == ["a.blp"]

    def test_blocks_of_another_dtype_than_declared(self, tmp_path: Path) -> None:
        x = da.zeros(10, chunks=5, dtype="f8").map_blocks(lambda rows: rows, dtype="f4")
        with pytest.raises(TypeError, match="cannot be cast to float32"):
            save(x, tmp_path / "x.blp")
        assert os.listdir(tmp_path) == []

    def test_rounded_floats(self, tmp_path: Path) -> None:
        array = np.random.default_rng(1).standard_normal((1100, 1001)).astype("f4")
        bp.save(tmp_path / "saved.blp", array, keepbits=7)
        save(da.from_array(array, 300), tmp_path / "one.blp", keepbits=7)
        bp.save(tmp_path / "two.blp", da.from_array(array, (300, 1001)), keepbits=7)
        for name in ("one.blp", "two.blp"):
            assert (tmp_path / name).read_bytes() == (tmp_path / "saved.blp").read_bytes()

    def test_unknown_shapes(self, tmp_path: Path) -> None:
        x = da.arange(10, chunks=3)
        with pytest.raises(ValueError, match="call compute_chunk_sizes"):
            save(x[x > 3], tmp_path / "x.blp")

    def test_targets_that_exist(self, path: Path, array: AnyArray) -> None:
        with pytest.raises(FileExistsError, match=r"a\.blp"):
            save(da.zeros(3), path, overwrite=False)
        assert np.array_equal(bp.load(path), array)
        assert os.listdir(path.parent) == ["a.blp"]
        save(da.zeros(3), path)
        assert bp.load(path).tolist() == [0, 0, 0]

    def test_numpy_arrays_and_lists(self, tmp_path: Path) -> None:
        save([[1, 2], [3, 4]], tmp_path / "x.blp")
        assert bp.load(tmp_path / "x.blp").tolist() == [[1, 2], [3, 4]]

    def test_blocks_do_not_pile_up(self, tmp_path: Path) -> None:
        """Each thread holds the blocks of one task, for any number of blocks."""
        count = most = 0
        lock = threading.Lock()

        class Block(np.ndarray):  # type: ignore[type-arg]
            """Array that is counted, views included, while it exists."""

        def gone() -> None:
            nonlocal count
            with lock:
                count -= 1

        def make_block(block_info: Any = None) -> AnyArray:
            nonlocal count, most
            memory = np.zeros((8, 1000)).view(Block)
            weakref.finalize(memory, gone)
            with lock:
                count += 1
                most = max(most, count)
            return memory[:]

        meta = np.empty((0, 0))
        x = da.map_blocks(make_block, chunks=((8,) * 50, (1000,)), dtype="f8", meta=meta)
        save(x, tmp_path / "x.blp", chunks=8)
        gc.collect()
        assert len(bp.load(tmp_path / "x.blp")) == 400
        assert count == 0
        assert 1 <= most <= 2


class TestMapClips:
    @pytest.fixture
    def clips(self, tmp_path: Path) -> Path:
        with bp.frames.create(tmp_path / "clips.blp") as store:
            for number in range(200):
                store.append(f"clip{number:03}", np.full((2, 4, 4), number, "u1"), {"n": number})
        return tmp_path / "clips.blp"

    def test_results_are_in_order(self, clips: Path) -> None:
        expected = [(f"clip{n:03}", n * 32, n) for n in range(200)]

        def clip_mean(clip: Any) -> Any:
            return clip.id, int(clip[:].sum()), clip.meta["n"]

        assert map_clips(clips, clip_mean) == expected
        assert open_files(clips) == []
        assert bp.frames.map_clips(clips, clip_mean) == expected
        with bp.frames.open(clips) as store:
            assert map_clips(store, clip_mean, batch=17) == expected
            delayed = map_clips(store, clip_mean, compute=False)
            assert dask.delayed(len)(delayed).compute() == 200
        wanted = ["clip007", "clip100", "clip003"]
        assert map_clips(clips, lambda clip: clip.id, ids=iter(wanted)) == wanted
        assert map_clips(clips, clip_mean, ids=[]) == []

    @pytest.mark.parametrize(("batch", "ntasks"), [(None, 67), (1, 200), (64, 4), (1000, 1)])
    def test_tasks(self, clips: Path, batch: int | None, ntasks: int) -> None:
        with TaskRecorder() as tasks_run:
            assert len(map_clips(clips, len, batch=batch)) == 200
        assert tasks_run.count("_call") == ntasks

    def test_many_stores(self, clips: Path) -> None:
        assert map_clips([clips], len, batch=100) == [2] * 200

    def test_errors(self, clips: Path) -> None:
        with pytest.raises(NotFoundError, match="missing"):
            map_clips(clips, len, ids=["missing"])
        with pytest.raises(ZeroDivisionError):
            map_clips(clips, lambda clip: 1 / 0)
        assert open_files(clips) == []
        with pytest.raises(ValueError, match="batch must be at least 1"):
            map_clips(clips, len, batch=0)


def test_without_dask(monkeypatch: Any) -> None:
    for name in ("dask", "dask.array", "bloscpack.integrations.dask"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "bloscpack.integrations.dask")
    with pytest.raises(ImportError, match=r"bloscpack\[dask\]"):
        bp.frames.map_clips("clips.blp", len)


def test_an_archive_is_not_an_array(tmp_path: Path) -> None:
    bp.savez(tmp_path / "a.blp", x=np.zeros(3))
    with pytest.raises(bp.exceptions.WrongKindError, match="an archive of named arrays"):
        from_bloscpack(tmp_path / "a.blp")


def test_tables_are_not_arrays(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    table = type("DataFrame", (), {"__module__": "dask.dataframe.core"})()
    for value in (table, pandas.DataFrame({"a": [1, 2]}), {"a": [1, 2]}):
        with pytest.raises(TypeError, match="expected an array, got"):
            save(value, tmp_path / "a.blp")
    assert not list(tmp_path.iterdir())
    save(np.arange(3), tmp_path / "a.blp", attrs={"unit": "K"})
    assert bp.load(tmp_path / "a.blp").tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="expected 1 names"):
        save(np.arange(3), tmp_path / "b.blp", attrs={"dims": ["x", "y"]})


class TestStore:
    """Blocks into an array that is open for changes."""

    @pytest.mark.parametrize("chunks", [8, (16, 7)])
    @pytest.mark.parametrize("blocks", [(13, 11), (8, 30)])
    def test_blocks_need_not_be_chunks(
        self, tmp_path: Path, array: AnyArray, chunks: Any, blocks: Any
    ) -> None:
        path = tmp_path / "a.blp"
        bp.save(path, np.zeros_like(array), chunks=chunks)
        x = da.from_array(array, chunks=blocks)
        with bp.open(path, "r+") as a, dask.config.set(num_workers=8):
            da.store(x, a, lock=False)
            assert np.array_equal(a[:], array)
            da.store(x[:20] * 2, a, regions=(slice(50, 70), slice(None)), lock=False)
            array[50:70] = array[:20] * 2
            stored = da.store(x[:20] * 3, a, regions=(slice(0, 20),), return_stored=True)
            array[:20] *= 3
            assert np.array_equal(stored.compute(), array[:20])
            assert not bp.load(path).any()
        assert np.array_equal(bp.load(path), array)

    def test_into_itself(self, path: Path, array: AnyArray) -> None:
        """Tasks read blocks, while others write."""
        with bp.open(path, "r+") as a, dask.config.set(num_workers=8):
            for _ in range(10):
                da.store(da.from_array(a, chunks=(7, 30), lock=False) + 1, a, lock=False)
                a.flush()
        assert np.array_equal(bp.load(path), array + 10)

    def test_a_task_that_fails_changes_nothing(self, path: Path, array: AnyArray) -> None:
        def fail(block: AnyArray, block_info: Any = None) -> AnyArray:
            if block_info[0]["chunk-location"][0] == 5:
                raise KeyError
            return block * 0

        x = da.from_array(array, chunks=(8, 30)).map_blocks(fail, dtype=array.dtype)
        with pytest.raises(KeyError), bp.open(path, "r+") as a:
            da.store(x, a, lock=False)
        assert np.array_equal(bp.load(path), array)

    @pytest.mark.parametrize("lock", [True, False])
    def test_processes_are_refused(self, path: Path, array: AnyArray, lock: bool) -> None:
        x = da.from_array(array, chunks=(50, 30))
        with bp.open(path, "r+") as a, pytest.raises(TypeError, match="changes cannot be pickled"):
            da.store(x, a, lock=lock, scheduler="processes")
        with bp.open(path) as a, pytest.raises(TypeError, match="not open for changes"):
            da.store(x, a, lock=lock)
        assert np.array_equal(bp.load(path), array)

    def test_to_zarr(self, path: Path, array: AnyArray) -> None:
        pytest.importorskip("zarr", reason="zarr is not installed")
        array = array[:96]
        bp.save(path, array, chunks=8, overwrite=True)
        z = bp.as_zarr(path, "r+")
        da.to_zarr(da.from_array(array + 1, chunks=(16, 30)), z)
        da.store(da.from_array(array[:16] * 2, chunks=(8, 30)), z, regions=(slice(16, 32),))
        z.store.close()
        array = array + 1
        array[16:32] = (array[:16] - 1) * 2
        assert np.array_equal(bp.load(path), array)
