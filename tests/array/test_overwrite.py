"""``overwrite=`` of the functions that make a file."""

import errno
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack import vrs
from bloscpack.format.codec import encode_measured
from bloscpack.storage import disk

FULL = np.arange(12.0)


def write_rows(path: Any, **options: Any) -> None:
    with bp.Writer(path, dtype="f8", **options) as writer:
        writer.append(FULL)


def save(path: Any, **options: Any) -> None:
    bp.save(path, FULL, **options)


def savez(path: Any, **options: Any) -> None:
    bp.savez(path, a=FULL, **options)


def parts(path: Any, **options: Any) -> None:
    with bp.parts(path, shape=FULL.shape, dtype="f8", **options) as job:
        # Of another content each time: a job that finds its own file there has been run twice.
        job.commit([job.write(0, np.random.default_rng().random(12))])


def create(path: Any, **options: Any) -> None:
    bp.frames.create(path, **options).close()


def record(path: Any, **options: Any) -> None:
    vrs.create(path, **options).close()


def convert(path: Any, **options: Any) -> None:
    source = Path(path).with_name("source.blp")
    if not source.exists():
        bp.save(source, FULL)
    bp.convert(source, path, to="array", **options)


MAKERS = [save, savez, write_rows, parts]


@pytest.mark.parametrize("make", [*MAKERS, create, record, convert])
def test_an_existing_file_is_refused_or_replaced(make: Callable[..., None], tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    make(path, overwrite=False)
    made = path.read_bytes()
    path.write_bytes(b"precious")
    with pytest.raises(FileExistsError, match="overwrite=True") as caught:
        make(path, overwrite=False)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == b"precious"
    assert sorted(each.name for each in tmp_path.iterdir() if each.name != "source.blp") == [
        "a.blp"
    ]
    inode = path.stat().st_ino
    make(path, overwrite=True)
    assert path.stat().st_ino != inode  # another file was renamed over it
    assert len(path.read_bytes()) == len(made)


@pytest.mark.parametrize("make", MAKERS)
def test_it_is_replaced_by_default(make: Callable[..., None], tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    path.write_bytes(b"old")
    make(path)
    assert path.stat().st_size > 3


@pytest.mark.parametrize("make", [*MAKERS, create, record, convert])
def test_a_link_is_a_file(make: Callable[..., None], tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        make(path, overwrite=False)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("make", [save, savez])
def test_a_file_that_appears_later_is_kept(
    make: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.blp"

    def racing(*args: Any, **options: Any) -> Any:
        path.write_bytes(b"another")
        return encode_measured(*args, **options)

    monkeypatch.setattr("bloscpack.container.writer.encode_measured", racing)
    with pytest.raises(FileExistsError):
        make(path, overwrite=False)
    assert path.read_bytes() == b"another"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("make", [*MAKERS, create, convert])
def test_one_of_two_writers_that_rename_at_once_wins(
    make: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, move, both = tmp_path / "a.blp", disk.move, Barrier(2, timeout=120)

    def move_at_once(source: str, target: str, *, overwrite: bool) -> None:
        both.wait()
        move(source, target, overwrite=overwrite)

    def outcome(_: int) -> str:
        try:
            make(path, overwrite=False)
        except FileExistsError as err:
            return str(err)
        return ""

    bp.save(tmp_path / "source.blp", FULL)
    monkeypatch.setattr(disk, "move", move_at_once)
    with ThreadPoolExecutor(2) as pool:
        won, lost = sorted(pool.map(outcome, range(2)))
    assert (won, "overwrite=True" in lost) == ("", True)
    assert {each.name for each in tmp_path.iterdir()} == {"a.blp", "source.blp"}


def test_a_file_that_appears_at_the_rename_is_kept_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.blp"

    def refuse(source: str, target: str) -> None:
        path.write_bytes(b"another")
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr("os.link", refuse)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        save(path, overwrite=False)
    assert path.read_bytes() == b"another"
    assert list(tmp_path.iterdir()) == [path]


def test_file_systems_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr("os.link", refuse)
    save(tmp_path / "a.blp", overwrite=False)
    assert list(tmp_path.iterdir()) == [tmp_path / "a.blp"]
    assert np.array_equal(bp.load(tmp_path / "a.blp"), FULL)


@pytest.mark.parametrize("flushes", [False, True])
def test_a_file_that_appears_before_the_writers(flushes: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    writer = bp.Writer(path, dtype="f8", overwrite=False)
    writer.append(FULL)
    path.write_bytes(b"another")
    with pytest.raises(FileExistsError):
        writer.flush() if flushes else writer.close()
    writer.close()
    assert path.read_bytes() == b"another"
    assert list(tmp_path.iterdir()) == [path]


def test_a_flushed_file_is_the_writers_own(tmp_path: Path) -> None:
    with bp.Writer(tmp_path / "a.blp", dtype="f8", overwrite=False) as writer:
        for _ in range(3):
            writer.append(FULL)
            writer.flush()
    assert bp.load(tmp_path / "a.blp").shape == (36,)


def test_devices_and_open_files(tmp_path: Path) -> None:
    bp.save("/dev/null", FULL, overwrite=False)
    with (tmp_path / "a.blp").open("wb") as stream:
        with pytest.raises(TypeError, match="paths and URLs only"):
            bp.save(stream, FULL, overwrite=False)
        bp.save(stream, FULL)


def test_an_array_is_not_an_option(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"\{'overwrite': array\}"):
        bp.savez(tmp_path / "a.blp", overwrite=FULL)
    bp.savez(tmp_path / "a.blp", {"overwrite": FULL})
    with pytest.raises(TypeError, match="True or False"):
        bp.save(tmp_path / "a.blp", FULL, overwrite=None)
    with bp.open(tmp_path / "a.blp") as archive:
        assert list(archive) == ["overwrite"]


@pytest.mark.parametrize("make", ["save", "savez", "writer", "parts", "frames"])
def test_an_object_made_since_the_check_is_kept(make: str) -> None:
    fsspec = pytest.importorskip("fsspec")
    pytest.importorskip("aiohttp")
    memory = fsspec.filesystem("memory")
    url = f"memory://overwrite/{make}.blp"

    def appear(*_: Any) -> None:
        memory.pipe_file(url, b"precious")

    def pairs() -> Iterator[tuple[str, Any]]:
        appear()
        yield "a", FULL

    def write_while_it_appears() -> None:
        if make == "save":
            bp.save(url, FULL, overwrite=False, progress=appear)
        elif make == "savez":
            bp.savez(url, pairs(), overwrite=False)
        elif make == "writer":
            with bp.Writer(url, dtype="f8", overwrite=False) as writer:
                writer.append(FULL)
                appear()
        elif make == "parts":
            with bp.parts(url, shape=FULL.shape, dtype="f8", overwrite=False) as job:
                job.commit([job.write(0, FULL)], progress=appear)
        else:
            with bp.frames.create(url) as store:
                store.append("a", np.zeros((2, 3), "u1"))
                appear()

    with pytest.raises(FileExistsError, match="overwrite=True"):
        write_while_it_appears()
    assert memory.cat_file(url) == b"precious"
    memory.rm("/overwrite", recursive=True)
