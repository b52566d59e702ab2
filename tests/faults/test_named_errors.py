"""A full disk: the error names the file that could not be written."""

import errno
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloscpack import vrs
from bloscpack.cli.console.outputfile import PassSink
from bloscpack.gulp import utils
from bloscpack.media.picturelist import Listing
from bloscpack.storage import disk
from bloscpack.storage.folder.outputfolder import Folder
from bloscpack.storage.memory import MemorySource
from bloscpack.storage.remote.prefetch import copy_to
from bloscpack.storage.remote.upload import open_upload
from bloscpack.storage.sink import SpoolSink
from bloscpack.vrs.store.clipcolumns import Spool
from bloscpack.vrs.store.verbatim import write_parts

from ..vrs.recordingfiles import build, numbered

FULL = "/dev/full"


def fail(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def full_disk(name: str | os.PathLike[str]) -> Iterator[None]:
    """Expect the error of a full disk, with this file name."""
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)) as caught:
        yield
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(name)


def fill(fd: int) -> None:
    """Make a descriptor refer to a device that is always full."""
    if not os.path.exists(FULL):
        pytest.skip(f"needs {FULL}")
    full = os.open(FULL, os.O_RDWR)
    os.dup2(full, fd)
    os.close(full)


class FullStream(io.BytesIO):
    """Stream that cannot be written."""

    def write(self, data: Any) -> int:
        fail()
        return 0


@pytest.mark.parametrize("call", ["write_at", "truncate", "sync"])
def test_repairing_the_index_of_a_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "a.vrs"
    path.write_bytes(build(numbered(4), "none").data)
    monkeypatch.setattr(disk, call, fail)
    with full_disk(path):
        vrs.fix_index(path)


@pytest.mark.parametrize(
    ("call", "name"),
    [("write_at", "a.vrs"), ("sync", "a.vrs"), ("replace", "a.vrs"), ("truncate", "a.vrs_7")],
)
def test_repairing_the_index_of_a_recording_in_several_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, name: str
) -> None:
    path = tmp_path / "a.vrs"
    recording = vrs.create(path, compression="none", chunk_nbytes=400)
    stream = recording.stream("sample")
    for number in range(25):
        stream.write_payload("data", number, bytes([number]) * 50)
    recording.flush()
    recording._is_closed = True  # as after a crash
    recording._file._close_files()
    names = sorted(os.listdir(tmp_path))
    with (tmp_path / names[-1]).open("ab") as file:
        file.write(b"the rest of a record")
    monkeypatch.setattr(disk, call, fail)
    with full_disk(tmp_path / name):
        vrs.fix_index(path)
    assert sorted(os.listdir(tmp_path)) == names


@pytest.mark.parametrize("call", ["write_at", "sync"])
def test_restoring_the_files_of_a_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    monkeypatch.setattr(disk, call, fail)
    with full_disk(tmp_path / "0"):
        write_parts([b"abc"], [3], lambda number: str(tmp_path / str(number)))


def test_columns_of_records_that_wait_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bloscpack.vrs.store.clipcolumns.TemporaryFile", lambda **_: FullStream())
    with full_disk(f"temporary file in {tmp_path}"):
        Spool(str(tmp_path)).write(bytes(1 << 20))


@pytest.mark.parametrize("form", ["csv", "json"])
def test_the_list_of_pictures(tmp_path: Path, form: str) -> None:
    listing = Listing(Folder(tmp_path), form, ("index",))
    assert listing._stream is not None
    fill(listing._stream.fileno())
    with full_disk(tmp_path / f"samples.{form}"), listing:
        listing.add({"index": 1})


def test_a_local_file_that_waits_to_be_sent() -> None:
    sink: Any = open_upload("memory://bucket/a.blp")
    name = sink._upload.path
    fill(sink._file.fileno())
    with full_disk(name):
        sink.write(bytes(1 << 20))
    with full_disk(name):
        sink.write_at(0, bytes(1 << 20))
    sink.write(b"left in the buffer")
    with full_disk(name):
        sink.commit()
    sink.abort()
    assert not os.path.exists(name)


def test_bytes_that_wait_for_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    sink = SpoolSink()
    sink._spool.fileno()  # makes it a file
    fill(sink._spool.fileno())
    sink.write(b"left in the buffer")
    with full_disk(f"temporary file in {tmp_path}"):
        next(sink.iter_blocks())
    sink.abort()


def test_a_copy_of_a_remote_file() -> None:
    with full_disk("temporary file in x"):
        copy_to(MemorySource(b"abc"), FullStream(), "temporary file in x")


def test_frames_of_a_video_do_not_end_early_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing frames used to be a RuntimeWarning without a file name."""

    @contextmanager
    def read_video(path: Any, **_: Any) -> Iterator[Any]:
        yield iter([np.zeros((8, 8, 3), "u1")] * 2)

    monkeypatch.setattr(utils, "read_video", read_video)
    monkeypatch.setattr(utils, "check_ffmpeg_exists", lambda: True)
    monkeypatch.setattr(utils.image, "encode_jpeg", lambda *_, **__: bytes(1 << 20))
    if not os.path.exists(FULL):
        pytest.skip(f"needs {FULL}")
    (tmp_path / "0000000002.jpg").symlink_to(FULL)
    with full_disk(tmp_path / "0000000002.jpg"):
        utils.burst_frames_to_shm("film.mp4", tmp_path)


def test_the_output_of_a_command() -> None:
    with full_disk("standard output"):
        PassSink(FullStream()).write(b"abc")
