"""Writing a dataset, interrupted at any point, leaves the old file or the new one.

Every change to files is one step of `tests.faults.disk`, at which the disk is full, the process
dies, or a write is torn.
"""

import functools
import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bloscpack import benzina

from ..faults.disk import Crash, StoppingDisk, installed
from .pictures import photo

ROOT = Path(__file__).resolve().parents[2]
NSAMPLES = 120


@functools.cache
def sample() -> bytes:
    writer = benzina.Writer(io.BytesIO(), tile=16)
    writer.abort()
    return writer.encode(photo(16, 16))


def write(path: Path) -> None:
    """Write enough samples that some are flushed before the last ones are added."""
    with benzina.Writer(path, overwrite=True) as writer:
        for number in range(NSAMPLES):
            writer.add_encoded(sample(), number, f"{number}")


def state(path: Path) -> Any:
    """Return what a reader finds: None, the old file or the number of samples."""
    if not path.exists():
        return None
    if path.read_bytes() == b"old":
        return "old"
    with benzina.open(path) as found:
        assert found.targets.tolist() == list(range(NSAMPLES))
        assert all(read.data == sample() for read in found.samples())
        assert list(found.names) == [f"{number}" for number in range(NSAMPLES)]
        return len(found)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["error", "crash", "torn"])
@pytest.mark.parametrize("old", [None, b"old"])
def test_stopped_at_every_step(kind: str, old: bytes | None, tmp_path: Path) -> None:
    whole, path = StoppingDisk(), tmp_path / "whole.bzna"
    if old is not None:
        path.write_bytes(old)  # a file that replaces another one takes other steps
    with installed(whole):
        write(path)
    assert whole.names.count("write_at") > 2
    seen = set()
    for step in range(whole.count):
        folder = tmp_path / str(step)
        folder.mkdir()
        path = folder / "a.bzna"
        if old is not None:
            path.write_bytes(old)
        stopping = StoppingDisk(step, kind)
        error = OSError if kind == "error" else Crash
        with installed(stopping), pytest.raises(error):
            write(path)
        found = state(path)
        seen.add(found)
        if kind == "error":
            # Even if the folder cannot be synced, it has the new file.
            left = [name for name in os.listdir(folder) if name != path.name]
            assert left == []
    before = None if old is None else "old"
    assert before in seen
    assert seen <= {before, NSAMPLES}


def test_a_full_disk_while_packing(tmp_path: Path) -> None:
    whole = StoppingDisk()
    pictures = [photo(16, 16)] * 3
    options: Any = {"tile": 16, "nthreads": 2}
    with installed(whole):
        benzina.pack(pictures, tmp_path / "whole.bzna", **options)
    for step in range(whole.count - 1):
        stopping = StoppingDisk(step)
        # An error of the disk, not of a picture that could be skipped.
        with installed(stopping), pytest.raises(OSError, match="No space left"):
            benzina.pack(pictures, tmp_path / "a.bzna", on_error="skip", **options)
        assert os.listdir(tmp_path) == ["whole.bzna"]


def test_a_stream_that_fails_is_untouched() -> None:
    class Failing(io.BytesIO):
        def write(self, data: Any) -> int:
            raise OSError("the pipe is broken")

    stream = Failing()
    with pytest.raises(OSError, match="broken"), benzina.Writer(stream) as writer:
        writer.add_encoded(sample())
    assert stream.getvalue() == b""


KILLED = """
import os, signal, sys
import numpy as np
from bloscpack import benzina

def give():
    for number in range(200):
        yield np.full((16, 16), number, "u1"), number, f"{number}"
        if number == 100:
            os.kill(os.getpid(), signal.SIGKILL)

benzina.pack(give(), sys.argv[1], tile=16, nthreads=2, overwrite=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("old", [None, b"old"])
def test_killed_while_packing(old: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "a.bzna"
    if old is not None:
        path.write_bytes(old)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(path)],
        cwd=ROOT,
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert (path.read_bytes() if path.exists() else None) == old
    left = [name for name in os.listdir(tmp_path) if name != path.name]
    assert [name.startswith(".bloscpack-") for name in left] == [True]
    write(path)
    assert state(path) == NSAMPLES
