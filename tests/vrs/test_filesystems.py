"""Recordings on a full disk, and in a file of terabytes of holes."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bloscpack import vrs
from bloscpack.storage import disk

from ..faults.fulldisk import fail, full_disk
from ..storage.test_filesystems import SPARSE, has_holes, limit_time

PROBE = """
from bloscpack import vrs
with vrs.open("r.vrs") as recording:
    print(len(recording))
"""


def drop(held: list[object]) -> None:
    held.clear()
    gc.collect()


def write_recording(path: Path) -> None:
    recording = vrs.create(path)
    try:
        recording.stream("imu")
        recording.close()
    finally:
        recording.abort()


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_a_full_disk_is_reported_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    monkeypatch.setattr(os, call, fail, raising=False)
    if call == "fdatasync":
        monkeypatch.setattr(os, "fsync", fail)
    if call == "pwrite":
        monkeypatch.setattr(os, "pwritev", fail, raising=False)
    with full_disk(tmp_path / "r.vrs"):
        write_recording(tmp_path / "r.vrs")


def test_a_recording_forgotten_after_a_full_disk_writes_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = vrs.create(tmp_path / "r.vrs")
    stream = recording.stream("imu")
    stream.write_payload("data", 0.0, b"x" * 100)
    recording.flush()
    size = os.path.getsize(tmp_path / "r.vrs")
    stream.write_payload("data", 1.0, b"x" * 100)
    with monkeypatch.context() as patch:
        patch.setattr(disk, "write_at", fail)
        with pytest.raises(OSError, match=r"r\.vrs"):
            recording.flush()
    held = [recording, stream]
    del recording, stream
    with pytest.warns(ResourceWarning, match="never closed"):
        drop(held)
    assert os.path.getsize(tmp_path / "r.vrs") == size


@pytest.mark.slow
def test_terabytes_of_holes_are_passed_over(tmp_path: Path) -> None:
    if not has_holes(tmp_path / "probe"):
        pytest.skip("the file system has no holes")
    with vrs.create(tmp_path / "r.vrs") as recording:
        stream = recording.stream("imu")
        for number in range(5):
            stream.write_payload("data", number, bytes(100))
    with open(tmp_path / "r.vrs", "r+b") as file:
        file.truncate(os.path.getsize(tmp_path / "r.vrs") - 40)  # without its index
        file.truncate(SPARSE)
    run = [sys.executable, "-c", PROBE]
    done = subprocess.run(
        run, capture_output=True, text=True, cwd=tmp_path, preexec_fn=limit_time, check=False
    )
    assert done.stdout.split() == ["5"], done.stderr
