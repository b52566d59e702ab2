"""Errors about damage end with the calls to make next, which work as they are written."""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import BloscpackError, CodecError, FormatError, WrongKindError

from ..conftest import SMALL_FORMATS, small_vectors

VALUES = np.random.default_rng(0).integers(0, 99, 4000)


def read_clips(path: Path) -> None:
    with bp.frames.open(path) as clips:
        for clip in clips.values():
            clip.read()


def read_records(path: Path) -> None:
    with bp.vrs.open(path) as recording:
        for record in recording:
            list(record.blocks)


def read_members(path: Path) -> None:
    with bp.open(path) as archive:
        for array in archive.values():
            array.read()


def write_array(path: Path) -> None:
    bp.save(path, VALUES, chunks=500)


def write_archive(path: Path) -> None:
    bp.savez(path, one=VALUES, two=VALUES)


def write_store(path: Path) -> None:
    with bp.frames.create(path) as store:
        store.append("walk", VALUES.reshape(4, 20, 50))


def copy_of(name: str) -> Callable[[Path], object]:
    def write(path: Path) -> object:
        kind = shutil.copytree if (SMALL_FORMATS / name).is_dir() else shutil.copyfile
        return kind(SMALL_FORMATS / name, path)

    return write


READERS: dict[str, tuple[Callable[[Path], object], Callable[[Path], object]]] = {
    "a.blp": (write_array, bp.load),
    "archive.blp": (write_archive, read_members),
    "store.blp": (write_store, read_clips),
    **{name: (copy_of(name), read_clips) for name in small_vectors("gulp")},
    **{name: (copy_of(name), read_records) for name in small_vectors("recording.vrs")},
    **{name: (copy_of(name), read_clips) for name in small_vectors("h264.bzna")},
}


def damaged(path: Path) -> Iterator[None]:
    """Flip bytes of a file, or of each file of a folder, one at a time."""
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        whole = file.read_bytes()
        for position in range(0, len(whole), len(whole) // 30 + 1):
            data = bytearray(whole)
            data[position] ^= 0xFF
            file.write_bytes(data)
            yield
        file.write_bytes(whole)


def error_of(call: Callable[[Path], object], path: Path) -> Exception | None:
    try:
        call(path)
    except BloscpackError as err:
        return err
    except (ValueError, AssertionError):
        return None
    return None


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", READERS)
def test_notes_name_calls_that_work(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if name.endswith(".bzna"):
        pytest.importorskip("av")
    write, read = READERS[name]
    path = tmp_path / name
    write(path)
    assert error_of(read, path) is None
    found = 0
    for _ in damaged(path):
        error = error_of(read, path)
        if isinstance(error, FormatError | CodecError) and not isinstance(error, WrongKindError):
            found += 1
            check(error)
    assert found


def check(error: Exception) -> None:
    (note,) = error.__notes__
    verify, recover = re.findall(r"bloscpack\.\w+\([^)]*\)", note)
    assert note == f"{verify} lists all damage; {recover} saves what is whole."
    names: dict[str, Any] = {"bloscpack": bp}
    assert not eval(verify, names).ok
    if not Path("OUT").exists():
        with suppress(FormatError):  # nothing is whole
            eval(recover, names)


def test_no_note_where_they_do_not_help(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    with (tmp_path / "a.npy").open("r+b") as stream:
        stream.truncate(300)
    (tmp_path / "list.csv").write_text("name\n1\n")
    bp.save(tmp_path / "a.blp", VALUES)
    calls: list[Callable[[], object]] = [
        lambda: bp.convert(tmp_path / "a.npy", tmp_path / "b.blp"),
        lambda: bp.open(tmp_path / "a.npy"),
        lambda: bp.open(tmp_path),
        lambda: bp.frames.open(tmp_path / "a.blp"),
        lambda: list(bp.frames.listing.listed(tmp_path / "list.csv")),
        lambda: bp.open(bytes((tmp_path / "a.blp").read_bytes()[:200])),
    ]
    for call in calls:
        with pytest.raises(BloscpackError) as raised:
            call()
        assert not hasattr(raised.value, "__notes__"), raised.value
