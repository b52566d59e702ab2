"""A handle pickles the location of its file, and refuses a file that has changed since."""

import copy
import io
import mmap
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import FileChangedError

from ..openfiles import open_files

ARRAY = np.arange(60_000, dtype="<i4").reshape(300, 200)
OPTIONS: dict[str, Any] = {}


@pytest.fixture(params=["trailer", "no trailer", "grid of array chunks"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    where = tmp_path / "array.blp"
    if request.param == "grid of array chunks":
        monkeypatch.setitem(OPTIONS, "chunks", (30, 90))
        monkeypatch.setitem(OPTIONS, "codec", "auto")
    save(where, ARRAY, has_trailer=request.param != "no trailer")
    return where


def save(path: Path, array: np.ndarray, *, has_trailer: bool = True, unit: str = "K") -> None:
    """Save an array, with or without a trailer behind the last chunk."""
    bp.save(path, array, **{"chunks": 30, "attrs": {"unit": unit}, **OPTIONS})
    with bp.open(path) as opened:
        trailer = opened._container.front.trailer
    assert trailer is not None
    if not has_trailer:
        os.truncate(path, trailer.offset)


def ends_with_trailer(path: Path) -> bool:
    with bp.open(path) as opened:
        return opened._container.front.trailer is not None


def travel(array: bp.Array) -> bp.Array:
    found = pickle.loads(pickle.dumps(array))
    assert isinstance(found, bp.Array)
    return found


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_the_array_arrives(path: Path, protocol: int) -> None:
    with bp.open(path) as array:
        array[5]
        data = pickle.dumps(array, protocol)
        # The pickle does not contain the content.
        assert len(data) < 1000
        with pickle.loads(data) as found:
            assert (found.shape, found.dtype, found.attrs) == (
                ARRAY.shape,
                ARRAY.dtype,
                array.attrs,
            )
            assert np.array_equal(found[:], ARRAY)
        assert np.array_equal(array[7], ARRAY[7])


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy])
def test_a_copy_is_a_handle_of_its_own(path: Path, way: Callable[[bp.Array], bp.Array]) -> None:
    with bp.open(path) as array:
        found = way(array)
    assert np.array_equal(found[7], ARRAY[7])
    found.close()


@pytest.mark.parametrize("verify", [True, False, "always"])
def test_options_travel(path: Path, verify: bool) -> None:
    with bp.open(path, verify=verify, nthreads=3) as array, travel(array) as found:
        assert found._container.verify == verify
        assert found._nthreads == 3


def test_relative_path(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    with bp.open(path.name) as array:
        monkeypatch.chdir("/")
        with travel(array) as found:
            assert np.array_equal(found[7], ARRAY[7])
            with travel(found) as again:
                assert np.array_equal(again[7], ARRAY[7])


def test_bytes_travel(path: Path) -> None:
    data = path.read_bytes()
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        for buffer in (data, bytearray(data), memoryview(b"x" + data)[1:], mapped):
            with bp.open(buffer) as array, travel(array) as found:
                assert np.array_equal(found[:], ARRAY)
            del array, found


def test_bytes_are_not_copied_before(path: Path) -> None:
    data = path.read_bytes()
    with bp.open(data) as array:
        assert array.__reduce__()[1][0] is data


def test_file_object_is_not_pickled(path: Path) -> None:
    with path.open("rb") as stream:
        for one in (stream, io.BytesIO(path.read_bytes())):
            with bp.open(one) as array:
                for way in (pickle.dumps, copy.copy):
                    with pytest.raises(TypeError, match="open it by its path"):
                        way(array)


def test_closed_handle_is_not_pickled(path: Path) -> None:
    array = bp.open(path)
    array.close()
    with pytest.raises(ValueError, match="closed"):
        pickle.dumps(array)


def touched(path: Path) -> None:
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))


def replaced(path: Path) -> None:
    save(path, ARRAY + 1, has_trailer=ends_with_trailer(path))
    touched(path)  # time stamps of a file system may be coarse


def replaced_at_the_same_time(path: Path) -> None:
    status = path.stat()
    save(path, ARRAY, unit="C", has_trailer=ends_with_trailer(path))
    assert path.stat().st_size == status.st_size
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def cut_short(path: Path) -> None:
    os.truncate(path, 20)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def longer(path: Path) -> None:
    status = path.stat()
    with path.open("ab") as stream:
        stream.write(b"more")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def another_kind(path: Path) -> None:
    np.save(path.open("wb"), ARRAY)


CHANGES = [
    replaced,
    replaced_at_the_same_time,
    cut,
    cut_short,
    emptied,
    longer,
    another_kind,
]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_changed_file_is_refused(path: Path, change: Callable[[Path], None], moment: str) -> None:
    with bp.open(path) as array:
        if moment == "before":
            change(path)
        data = pickle.dumps(array)
        if moment == "after":
            pickle.loads(data).close()
            change(path)
        opened = open_files(path)
        with pytest.raises(FileChangedError, match="has changed since") as caught:
            pickle.loads(data)
        assert str(caught.value).startswith(str(path))
        assert open_files(path) == opened


def test_touched_file(path: Path) -> None:
    with bp.open(path) as array:
        data = pickle.dumps(array)
    touched(path)
    if ends_with_trailer(path):
        # The trailer proves that the content of a copy is the same.
        pickle.loads(data).close()
    else:
        with pytest.raises(FileChangedError):
            pickle.loads(data)


def test_chunks_of_the_same_size_that_differ(path: Path) -> None:
    # Incompressible bytes are stored uncompressed.
    one, other = np.random.default_rng(5).integers(-(2**31), 2**31, (2, 300, 200)).astype("<i4")
    has_trailer = ends_with_trailer(path)
    save(path, one, has_trailer=has_trailer)
    status = path.stat()
    with bp.open(path) as array:
        data = pickle.dumps(array)
    save(path, other, has_trailer=has_trailer)
    assert path.stat().st_size == status.st_size
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + (not has_trailer)))
    with pytest.raises(FileChangedError):
        pickle.loads(data)


def test_missing_file(path: Path) -> None:
    with bp.open(path) as array:
        data = pickle.dumps(array)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        pickle.loads(data)


def test_moved_and_replaced_path(path: Path) -> None:
    with bp.open(path) as array:
        os.rename(path, path.with_name("old.blp"))
        bp.save(path, ARRAY[:100])
        # The handle keeps reading the file it opened; another process cannot reopen it.
        assert np.array_equal(array[:], ARRAY)
        with pytest.raises(FileChangedError):
            travel(array)


@pytest.mark.parametrize("checksum", ["None", "adler32", "xxh3_64"])
@pytest.mark.parametrize("offsets", [True, False])
def test_files_of_other_kinds(tmp_path: Path, checksum: str, offsets: bool) -> None:
    path = tmp_path / "bytes.blp"
    bp.pack_bytes_to_file(
        b"content" * 1000,
        path,
        chunk_size=999,
        bloscpack_args=bp.BloscpackArgs(
            checksum=checksum, offsets=offsets, max_app_chunks=0 if not offsets else 5
        ),
    )
    with bp.open(path) as array, travel(array) as found:
        assert found[:].tobytes() == b"content" * 1000
