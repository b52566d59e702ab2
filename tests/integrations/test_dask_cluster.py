"""A cluster of two processes: equal bytes, little memory, and workers and programs that die."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

dask = pytest.importorskip("dask", reason="dask is not installed")
distributed = pytest.importorskip("distributed", reason="distributed is not installed")

import dask.array as da  # noqa: E402

import bloscpack as bp  # noqa: E402
from bloscpack.integrations.dask import from_bloscpack, map_clips, save  # noqa: E402

from ..servers import S3Server, running  # noqa: E402
from ..strategies import AnyArray  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SHAPE = (400, 1000)
CHUNKS = 10
_TIMEOUT_SECONDS = 240


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    # Workers import the tests as modules from the working directory of this process.
    with (
        dask.config.set({"distributed.admin.tick.interval": "1s"}),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address=":0",
            memory_limit=None,
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def array() -> AnyArray:
    return np.arange(SHAPE[0] * SHAPE[1], dtype="i4").reshape(SHAPE) % 1009


@pytest.fixture
def path(tmp_path: Path, array: AnyArray) -> Path:
    bp.save(tmp_path / "a.blp", array, chunks=CHUNKS)
    return tmp_path / "a.blp"


def check_same(path: Path) -> None:
    """Check that ``x.blp`` beside the file has the same bytes, and that no other file exists."""
    assert (path.parent / "x.blp").read_bytes() == path.read_bytes()
    assert sorted(each.name for each in path.parent.iterdir()) == ["a.blp", "x.blp"]


def test_read_and_write(client: Any, path: Path, array: AnyArray) -> None:
    x = from_bloscpack(path, "80 KB")
    assert x.numblocks == (20, 1)
    assert np.array_equal((x[::3] + 1).compute(), array[::3] + 1)
    save(x, path.parent / "x.blp", chunks=CHUNKS)
    check_same(path)
    delayed = save(x.rechunk((130, 300)), path.parent / "x.blp", chunks=CHUNKS, compute=False)
    (future,) = client.compute([delayed])
    distributed.wait(future)
    assert future.result() == str(path.parent / "x.blp")
    check_same(path)


@pytest.mark.parametrize("count", [1, 2])
def test_any_number_of_workers(client: Any, path: Path, count: int) -> None:
    workers = list(client.scheduler_info()["workers"])[:count]
    with dask.annotate(workers=workers):
        x = from_bloscpack(path, "40 KB") + 0
    with dask.config.set({"optimization.fuse.active": False}):
        save(x, path.parent / "x.blp", chunks=CHUNKS)
    check_same(path)


def test_an_object(client: Any, path: Path) -> None:
    """Workers read and write an object, each with a client of its own."""
    with running(S3Server()) as s3:
        source = s3.put("a.blp", path.read_bytes())
        x = from_bloscpack(source, "400 KB", storage_options=s3.options)
        save(x, "s3://box/x.blp", chunks=CHUNKS, storage_options=s3.options)
        assert s3.object("x.blp") == path.read_bytes()
        assert s3.keys() == ["a.blp", "x.blp"]


def test_clips(client: Any, tmp_path: Path) -> None:
    with bp.frames.create(tmp_path / "clips.blp") as store:
        for number in range(30):
            store.append(f"clip{number:02}", np.full((2, 4, 4), number, "u1"))
    found = map_clips(tmp_path / "clips.blp", lambda clip: (clip.id, clip[:].sum(), os.getpid()))
    assert [(id_, int(total)) for id_, total, _ in found] == [
        (f"clip{number:02}", 32 * number) for number in range(30)
    ]
    assert os.getpid() not in {pid for _, _, pid in found}


def once(marker: Path) -> bool:
    """Return whether this is the first call for a marker."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def dies_at(name: str, count: int, marker: Path) -> Callable[[AnyArray], AnyArray]:
    """Return a function for a block; one process dies at call `count` of a disk function."""

    def arm(rows: AnyArray) -> AnyArray:
        from bloscpack.storage import disk

        if getattr(disk, "is_armed", "") != str(marker):
            disk.is_armed = str(marker)  # type: ignore[attr-defined]
            real, left = getattr(disk, name), [count]

            def call(*args: Any) -> Any:
                left[0] -= 1
                if left[0] < 0 and not marker.exists() and once(marker):
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*args)

            setattr(disk, name, call)
        return rows

    return arm


@pytest.mark.parametrize(("name", "count"), [("write_at", 5), ("copy_range", 7), ("unlink", 4)])
def test_a_worker_that_is_killed(
    client: Any, path: Path, tmp_path_factory: Any, name: str, count: int
) -> None:
    """A worker dies in a part, in the join, or in the removal of parts; others redo its work."""
    target = path.parent / "x.blp"
    marker = tmp_path_factory.mktemp("marker") / "dead"
    x = from_bloscpack(path, "40 KB")
    x = x.map_blocks(dies_at(name, count, marker), dtype=x.dtype, meta=np.empty((0, 0), "i4"))
    assert save(x, target, chunks=CHUNKS) == str(target)
    assert marker.exists()
    check_same(path)


def test_an_error_leaves_nothing(client: Any, path: Path, array: AnyArray) -> None:
    def fails(rows: AnyArray, block_info: Any = None) -> AnyArray:
        if block_info[0]["chunk-location"][0] == 7:
            raise ZeroDivisionError
        return rows

    x = from_bloscpack(path, "40 KB").map_blocks(fails, dtype="i4", meta=array[:0])
    with pytest.raises(ZeroDivisionError):
        save(x, path.parent / "x.blp", chunks=CHUNKS)
    assert os.listdir(path.parent) == ["a.blp"]


PROGRAM = """
import sys
import distributed
import numpy as np
from bloscpack.integrations.dask import from_bloscpack, save

address, source, target = sys.argv[1:]

def waits(rows, block_info=None):
    # All but the first blocks wait until the program is dead.
    if block_info[0]["chunk-location"][0] > 3:
        distributed.Event("reached").set()
        distributed.Event("released").wait(240)
    return rows

client = distributed.Client(address)
x = from_bloscpack(source, "40 KB").map_blocks(waits, dtype="i4", meta=np.empty((0, 0), "i4"))
save(x, target, chunks=10)
"""


def test_a_program_that_is_killed(client: Any, path: Path) -> None:
    """A program that only had the scheduler's address: no file appears, abort removes the parts."""
    target = path.parent / "x.blp"
    address = client.scheduler_info()["address"]
    reached, released = distributed.Event("reached"), distributed.Event("released")
    program = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), address, str(path), str(target)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
    )
    try:
        assert reached.wait(_TIMEOUT_SECONDS)
    finally:
        program.kill()
        _, errors = program.communicate()
    assert program.returncode == -signal.SIGKILL, errors
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while client.run_on_scheduler(_nwritten) and time.monotonic() < deadline:
        pass
    released.set()
    while any(client.processing().values()) and time.monotonic() < deadline:
        pass
    assert not target.exists()
    assert len(os.listdir(path.parent)) == 2
    bp.PartsJob(target, shape=(), dtype="u1").abort(others=True)
    assert os.listdir(path.parent) == ["a.blp"]
    save(from_bloscpack(path), target, chunks=CHUNKS)
    check_same(path)


def _nwritten(dask_scheduler: Any) -> int:
    """Return the number of tasks of writes in the scheduler."""
    return sum(
        "write" in str(key) and bool(task.who_wants or task.waiters)
        for key, task in dask_scheduler.tasks.items()
    )


def _most_memory() -> int:
    """Return the peak memory of this process in bytes."""
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def test_memory(client: Any, tmp_path: Path) -> None:
    """A worker holds two blocks and little more, for arrays of many blocks."""
    nblocks, rows = 40, 8

    def make_block(block_info: Any = None) -> AnyArray:
        start = block_info[None]["array-location"][0][0]
        return np.full((rows, 1 << 20), start % 251, "u1")

    def saved(count: int) -> None:
        x = da.map_blocks(
            make_block,
            chunks=((rows,) * count, (1 << 20,)),
            dtype="u1",
            meta=np.empty((0, 0), "u1"),
        )
        save(x, tmp_path / "x.blp", codec="lz4")

    saved(4)
    before = client.run(_most_memory)
    saved(nblocks)
    after = client.run(_most_memory)
    with bp.open(tmp_path / "x.blp") as a:
        assert a[:, 0].tolist() == [k // rows * rows % 251 for k in range(nblocks * rows)]
    block = rows << 20
    grown = [after[worker] - before[worker] for worker in before]
    assert max(grown) < 4 * block
