"""Objects dropped without `close` warn: which file, and its state."""

import gc
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp


def dropped(make: Callable[[], Any], message: str) -> None:
    made = [make()]
    with pytest.warns(ResourceWarning, match=message) as records:
        made.clear()  # the last reference, so the object is collected at once
    assert len(records) == 1


def test_a_writer_leaves_no_file(tmp_path: Path) -> None:
    def make() -> Any:
        writer = bp.Writer(tmp_path / "a.blp", dtype="i4")
        writer.append([1, 2])
        return writer

    dropped(make, "a.blp: the Writer was never closed; no file was made, and its rows are lost")
    assert os.listdir(tmp_path) == []


def test_a_writer_leaves_the_flushed_rows(tmp_path: Path) -> None:
    def make() -> Any:
        writer = bp.Writer(tmp_path / "a.blp", dtype="i4", chunks=4)
        writer.append(range(10))
        writer.flush()
        writer.append(range(100))
        return writer

    dropped(make, "a.blp: the array was never closed; the file is as of the last flush")
    assert bp.load(tmp_path / "a.blp").tolist() == list(range(10))
    assert os.listdir(tmp_path) == ["a.blp"]


def test_an_array_open_for_appending(tmp_path: Path) -> None:
    bp.save(tmp_path / "a.blp", np.arange(3))

    def make() -> Any:
        array = bp.open(tmp_path / "a.blp", "a")
        array.append([3])
        return array

    dropped(make, "a.blp: the array was never closed; the file is as of the last flush")
    with bp.open(tmp_path / "a.blp", "a") as array:
        assert array[:].tolist() == [0, 1, 2]


def test_the_lock_is_released_while_the_warning_is_kept(tmp_path: Path) -> None:
    """A recorded warning holds the object."""
    bp.save(tmp_path / "a.blp", np.arange(3))
    with bp.frames.create(tmp_path / "b.blp"):
        pass
    for name, open_to_append in (("a.blp", bp.open), ("b.blp", bp.frames.open)):
        made = [open_to_append(tmp_path / name, "a")]
        with pytest.warns(ResourceWarning, match=name) as records:
            made.clear()
        assert records[0].source is not None
        with open_to_append(tmp_path / name, "a"):
            pass


def test_a_frame_store(tmp_path: Path) -> None:
    def make() -> Any:
        store = bp.frames.create(tmp_path / "a.blp")
        store.append("walk", np.zeros((2, 4, 4), "u1"))
        return store

    dropped(make, "a.blp: the frame store was never closed; its clips are in the file")
    with bp.frames.open(tmp_path / "a.blp", "a") as store:
        assert list(store) == ["walk"]


def test_a_forked_copy_leaves_the_file_to_its_parent(tmp_path: Path) -> None:
    held: list[Any] = [bp.Writer(tmp_path / "a.blp", dtype="i4", chunks=4)]
    held[0].append(range(10))
    held.append(bp.frames.create(tmp_path / "b.blp"))
    child = os.fork()
    if child == 0:
        status = 1
        with suppress(BaseException), warnings.catch_warnings():
            warnings.simplefilter("error")
            said: list[Any] = []
            sys.unraisablehook = said.append
            held.clear()
            status = 2 if said else 0
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    held[1].append("walk", np.zeros((2, 4, 4), "u1"))
    for each in held:
        each.close()
    assert bp.load(tmp_path / "a.blp").tolist() == list(range(10))
    assert sorted(os.listdir(tmp_path)) == ["a.blp", "b.blp"]


def test_a_dataset(tmp_path: Path) -> None:
    message = "a.bzna: the dataset was never closed; no file was made, and its samples are lost"
    dropped(lambda: bp.benzina.Writer(tmp_path / "a.bzna"), message)
    assert os.listdir(tmp_path) == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", ["close", "abort"])
def test_closed_objects_do_not_warn(how: str, tmp_path: Path) -> None:
    writer = bp.Writer(tmp_path / "a.blp", dtype="i4")
    getattr(writer, how)()
    del writer
    bp.save(tmp_path / "b.blp", np.arange(3))
    bp.open(tmp_path / "b.blp")  # a handle for reading does not need `close`
    with bp.open(tmp_path / "b.blp", "a"):
        pass
    with bp.frames.create(tmp_path / "c.blp"):
        pass
    gc.collect()
