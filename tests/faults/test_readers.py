"""Readers beside a writer at every step: they find a prefix of the flushed data."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.container import front
from bloscpack.container.chunk import StoredChunks
from bloscpack.container.front import Front
from bloscpack.exceptions import FormatError
from bloscpack.storage.file import FileSource

from .disk import StoppingDisk, installed, without_syncs
from .operations import (
    OPERATIONS,
    Operation,
    appends,
    grid,
    ramp,
    saved,
    saved_grid,
    state,
    state_of,
)

pytestmark = pytest.mark.usefixtures("soon_on_disk")

CHANGING = [each for each in OPERATIONS if each.name.startswith("change")]
# Others replay a journal or replace the content, so that readers do not find a prefix.
GROWING = [each for each in OPERATIONS if each.name.startswith(("append", "outgrow", "attrs"))]


def check_handle(a: bp.Array) -> None:
    expected = ramp(0, a.size).reshape(a.shape)
    assert np.array_equal(a[:], expected)
    assert np.array_equal(a[-1], expected[-1])
    assert np.array_equal(a[-7:-2], expected[-7:-2])
    for index, content in enumerate(a.iter_chunks()):
        assert content == expected[a.chunk_region(index)].tobytes()


@pytest.mark.sampled(7)
@pytest.mark.parametrize("operation", GROWING, ids=str)
def test_at_every_step(operation: Operation, tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    with without_syncs():
        operation.prepare(path)
    handles: dict[int, bp.Array] = {}
    followed = bp.open(path)
    seen: list[int] = []

    def look() -> None:
        found = state_of(path)
        assert found in operation.allowed
        seen.append(found[0] if found else 0)
        if len(handles) < 20:
            handles[len(seen)] = bp.open(path)
        for a in handles.values():
            check_handle(a)
        before = len(followed)
        followed.refresh()
        assert len(followed) >= before
        assert followed.size >= seen[-1]
        check_handle(followed)

    with installed(StoppingDisk(before=look)):
        operation.run(path)
    look()
    assert len(seen) > 5
    assert seen == sorted(seen)
    assert [state(n)[0] for n in dict.fromkeys(seen)] == list(
        dict.fromkeys(each[0] for each in operation.allowed if each)
    )
    for a in [*handles.values(), followed]:
        a.close()


@pytest.mark.parametrize("is_grid", [False, True])
def test_handles_kept_for_long(tmp_path: Path, is_grid: bool) -> None:
    path = tmp_path / "a.blp"
    (saved_grid if is_grid else saved)(30)(path)
    handles = []
    with bp.open(path, "a", nthreads=1) as a:
        for stop in (*range(40, 130, 10), 300, 310 if is_grid else 301, 420, 900):
            handles.append(bp.open(path))
            rows = ramp(a.size, stop)
            a.append(grid(rows) if is_grid else rows)
            check_handle(handles[-1])
            if stop % 20 == 0:
                a.flush()
    for handle in handles:
        check_handle(handle)
        handle.refresh()
        assert handle.size == 900
        check_handle(handle)
        handle.close()


def test_front_that_differs_at_each_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that a busy writer overtakes during several attempts in a row tries again."""
    path = tmp_path / "a.blp"
    saved(30)(path)
    read_front = front.read_front
    left = iter(range(6))

    def mixed(*arguments: Any, **options: Any) -> Front:
        attempt = next(left, None)
        if attempt is not None:
            raise FormatError(f"header: mix {attempt} of two states")
        return read_front(*arguments, **options)

    with bp.open(path) as old:
        with bp.open(path, "a") as a:
            a.append(ramp(30, 33))
        monkeypatch.setattr(front, "read_front", mixed)
        with bp.open(path) as now:
            assert now.size == 33
        left = iter(range(6))
        check_handle(old)
        assert next(left, None) is None


def test_front_with_the_same_error_at_each_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mixes of two states may look alike; that of a damaged file is found with one header."""
    path = tmp_path / "a.blp"
    saved(30)(path)
    read_front = front.read_front
    rows = iter(range(30, 36))
    with bp.open(path, "a") as writer:

        def mixed(*arguments: Any, **options: Any) -> Front:
            row = next(rows, None)
            if row is not None:
                writer.append(ramp(row, row + 1))
                writer.flush()
                raise FormatError("header: nchunks is 4, but the grid has 5 chunks")
            return read_front(*arguments, **options)

        with monkeypatch.context() as patched:
            patched.setattr(front, "read_front", mixed)
            with bp.open(path) as now:
                assert now.size == 36
    attempts = []

    def damaged(*arguments: Any, **options: Any) -> Front:
        attempts.append(options)
        raise FormatError("header: damaged")

    monkeypatch.setattr(front, "read_front", damaged)
    with pytest.raises(FormatError, match="header: damaged"):
        bp.open(path)
    assert len(attempts) == 3


def test_threads_share_the_last_row_of_an_older_state(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    saved_grid(30)(path)
    with bp.open(path) as old:
        reader = old.container
        with bp.open(path, "a") as writer:
            writer.append(grid(ramp(30, 40)))
        last = range(reader.front.nstable, reader.nchunks)
        expected = [bp.open(path).chunk_region(index) for index in last]
        content = [reader.read_chunk(index) for index in last]
        assert len(expected) > 1

        class Swapping(tuple):  # another thread sets the chunk of its own between two looks
            __slots__ = ()

            def __getitem__(self, at: int) -> object:
                found = tuple.__getitem__(self, at)
                if at == 0:
                    reader.stored._old_last = other
                return found

        other = (last[1], reader.stored.old_chunk(last[1]))
        reader.stored._old_last = Swapping((last[0], reader.stored.old_chunk(last[0])))
        assert reader.read_chunk(last[0]) == content[0]


def test_writer_that_rolls_back_and_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The header is unchanged, yet a journal shows that the chunk is being written."""
    path = tmp_path / "a.blp"
    saved(33)(path)
    looks = iter([FormatError("chunk 4: torn"), None])
    fetch = StoredChunks.fetch

    def torn(chunks: StoredChunks, index: int) -> tuple[Any, ...]:
        error = next(looks, None)
        if error is not None:
            raise error
        return fetch(chunks, index)

    with bp.open(path) as old:
        reader = old.container
        monkeypatch.setattr(StoredChunks, "fetch", torn)
        assert reader.stored.old_chunk(reader.nchunks - 1) is None  # unchanged: really damaged
        looks = iter([FormatError("chunk 4: torn"), None])
        begun = iter([False, True])  # after the front is read, then after the look
        monkeypatch.setattr(FileSource, "has_unfinished_append", lambda _: next(begun, False))
        assert reader.stored.old_chunk(reader.nchunks - 1) is not None


READER = """
import sys
import numpy as np
import bloscpack as bp
path, total = sys.argv[1], int(sys.argv[2])
old = bp.open(path)
full = (np.arange(total, dtype="i4") * 2654435).view("i4")
print("ready", flush=True)
rounds = 0
while True:
    with bp.open(path) as a:
        assert np.array_equal(a[:].reshape(-1), full[: a.size]), a.shape
        assert a[-1].reshape(-1)[-1] == full[a.size - 1]
        done = a.size == total
    assert np.array_equal(old[:].reshape(-1), full[: old.size])
    rounds += 1
    if rounds % 3 == 0:
        old.refresh()
    if done:
        break
print(rounds)
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("is_grid", [False, True])
def test_a_process_and_threads_that_read_all_the_time(tmp_path: Path, is_grid: bool) -> None:
    path, total = tmp_path / "a.blp", 6000
    (saved_grid if is_grid else saved)(30)(path)
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, str(path), str(total)], stdout=subprocess.PIPE, text=True
    )
    assert reader.stdout is not None
    assert reader.stdout.readline() == "ready\n"
    stop = threading.Event()
    errors: list[BaseException] = []

    def read() -> None:
        try:
            old = bp.open(path)
            while not stop.is_set():
                check_handle(old)
                with bp.open(path) as now:
                    check_handle(now)
            old.close()
        except BaseException as err:
            errors.append(err)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        appends(*(range(40, total, 40) if is_grid else range(37, total, 41)), total)(path)
    finally:
        stop.set()
        thread.join()
        output, _ = reader.communicate(timeout=240)
    assert not errors
    assert reader.returncode == 0
    assert int(output) > 0


@pytest.mark.sampled(7)
@pytest.mark.parametrize("operation", CHANGING, ids=str)
def test_a_handle_keeps_its_version_at_every_step(operation: Operation, tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    with without_syncs():
        operation.prepare(path)
    handles: list[tuple[bp.Array, np.ndarray[Any, Any]]] = []

    def look() -> None:
        with bp.open(path) as opened:
            content = opened[...]
        assert state_of(path) in operation.allowed
        if not handles or not np.array_equal(content, handles[-1][1]):
            handles.append((bp.open(path), content))
        for a, expected in handles:
            assert np.array_equal(a[...], expected)
            assert np.array_equal(a[-3:], expected[-3:])

    with installed(StoppingDisk(before=look)):
        operation.run(path)
    look()
    assert len(handles) == len(operation.allowed)
    for a, _ in handles:
        a.close()
