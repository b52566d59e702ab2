"""Concurrency: threads and forked children read one directory at once."""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloscpack.gulp import GulpDirectory
from bloscpack.gulp import clipsource as gulp_source
from bloscpack.gulp.chunk.chunkfile import GulpChunk
from bloscpack.gulp.clipsource import GulpSource
from bloscpack.media import image

from .. import threadlist
from .conftest import frames, write

NUMBER = 12


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(3):
        write(
            tmp_path,
            number,
            {f"{number}-{k}": frames(8, 40, 50, 3, seed=10 * number + k) for k in range(4)},
        )
    return tmp_path


def run_at_once(*work: Callable[[], None]) -> None:
    """Run functions in threads, started together, and raise the first error."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(work))

    def guarded(function: Callable[[], None]) -> None:
        barrier.wait(240)
        try:
            function()
        except BaseException as err:
            errors.append(err)

    threads = [threading.Thread(target=guarded, args=(function,)) for function in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    if errors:
        raise errors[0]


def in_child(work: Callable[[], None]) -> int:
    """Fork, run `work` in the child, and return its process id."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)
    return child


def check(directory: GulpDirectory, expected: dict[str, bytes], seed: int) -> None:
    rng = np.random.default_rng(seed)
    for id_ in rng.permutation(sorted(expected)):
        assert np.array(directory[str(id_)][0]).tobytes() == expected[id_]


def check_chunks(directory: GulpDirectory, expected: dict[str, bytes]) -> None:
    for chunk in directory:
        for found, meta in chunk:
            assert np.array(found).tobytes() == expected[meta["name"]]


def check_source(source: GulpSource, expected: dict[str, bytes], seed: int) -> None:
    rng = np.random.default_rng(seed)
    ids = [str(id_) for id_ in rng.permutation(sorted(expected))]
    for id_ in ids:
        assert source[id_][:].tobytes() == expected[id_]
    batch = source.read([(id_, None) for id_ in ids], nthreads=2)
    assert [frames.tobytes() for frames in batch] == [expected[id_] for id_ in ids]


def whole(folder: Path) -> dict[str, bytes]:
    directory = GulpDirectory(folder)
    return {id_: np.array(directory[id_][0]).tobytes() for id_ in directory.chunk_lookup}


def test_threads_share_a_directory_and_its_chunks(folder: Path) -> None:
    expected, directory = whole(folder), GulpDirectory(folder)
    before = threadlist.running()
    assert len(set(expected.values())) == NUMBER
    run_at_once(
        *[lambda k=k: check(directory, expected, k) for k in range(3)],
        *[lambda: check_chunks(directory, expected) for _ in range(3)],
    )
    assert threadlist.running() <= before


def test_threads_share_a_source(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gulp_source, "MAX_OPEN_FILES", 1)
    expected = whole(folder)
    with GulpSource(folder) as source:
        run_at_once(*[lambda k=k: check_source(source, expected, k) for k in range(4)])


def test_children_go_on_with_what_the_parent_has_open(folder: Path) -> None:
    expected, directory, source = whole(folder), GulpDirectory(folder), GulpSource(folder)
    iteration = iter(next(directory.chunks()))
    next(iteration)
    check_source(source, expected, 0)

    def work() -> None:
        for seed in range(3):
            check(directory, expected, seed)
            check_source(source, expected, seed)
        assert len(list(iteration)) == 3

    children = [in_child(work) for _ in range(3)]
    work()
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert statuses == [0, 0, 0]


def test_results_do_not_depend_on_threads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for nthreads in ("1", "2", "3"):
        monkeypatch.setenv("BLOSCPACK_NTHREADS", nthreads)
        found.append(whole(folder))
    assert found[0] == found[1] == found[2]


def test_frames_are_encoded_on_several_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = set()
    both = threading.Barrier(2)
    original = image.encode_jpeg

    def noted(frame: Any, **options: Any) -> bytes:
        used.add(threading.get_ident())
        both.wait(240)
        return original(frame, **options)

    images = frames(16, 240, 320, 3)
    expected = [original(frame) for frame in images]
    monkeypatch.setenv("BLOSCPACK_NTHREADS", "2")
    monkeypatch.setattr(image, "encode_jpeg", noted)
    write(tmp_path, 0, {"a": images})
    assert len(used) == 2
    # Still in order.
    assert GulpDirectory(tmp_path, jpeg_decoder=bytes)["a"][0] == expected


def test_a_clip_is_decoded_on_several_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 0, {"a": frames(16, 240, 320, 3)})
    used = set()
    original = image.decode

    def noted(data: bytes) -> object:
        used.add(threading.get_ident())
        both.wait(240)
        return original(data)

    both = threading.Barrier(2)
    monkeypatch.setenv("BLOSCPACK_NTHREADS", "2")
    monkeypatch.setattr(image, "decode", noted)
    assert len(GulpDirectory(tmp_path)["a"][0]) == 16
    assert len(used) == 2


@pytest.mark.sampled(3)
@pytest.mark.parametrize("flag", ["wb", "ab"])
@pytest.mark.parametrize("is_error", [True, False])
def test_a_child_that_leaves_the_block_of_a_writer(
    tmp_path: Path, flag: str, is_error: bool
) -> None:
    """The chunk is the parent's: the child neither writes its buffer nor discards the items."""
    paths = tmp_path / "data_0.gulp", tmp_path / "meta_0.gmeta"
    child = -1
    try:
        chunk = GulpChunk(*paths)
        with chunk.open(flag):
            chunk.append("a", {}, frames(1, 40, 50))
            child = os.fork()
            if child:
                assert os.waitpid(child, 0)[1] == 0
                chunk.append("b", {}, frames(2, 40, 50))
            elif is_error:
                sys.exit()
    finally:
        if not child:
            os._exit(0)
    (chunk,) = GulpDirectory(tmp_path)
    with chunk.open():
        assert [len(chunk[id_][0]) for id_ in "ab"] == [1, 2]
    places = [info for item in chunk.meta_dict.values() for info in item["frame_info"]]
    assert paths[0].stat().st_size == sum(length for _, _, length in places)
