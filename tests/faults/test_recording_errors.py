"""A full disk: the error names the file of a recording that could not be written."""

import os
from pathlib import Path

import pytest

from bloscpack import vrs
from bloscpack.storage import disk
from bloscpack.vrs.store.clipcolumns import Spool
from bloscpack.vrs.store.verbatim import write_parts

from ..vrs.recordingfiles import build, numbered
from .fulldisk import FullStream, fail, full_disk


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
