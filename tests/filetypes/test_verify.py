"""verify and recover detect the type of a file, for every kind of source."""

import io
import os
import threading
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import NotBloscpackError


class Stream(io.RawIOBase):
    """Bytes that can be read only once, front to back."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]
        return self._file.readinto(buffer)


@pytest.fixture(params=["array", "frames"])
def data(request: pytest.FixtureRequest, tmp_path: Path) -> bytes:
    path = tmp_path / "file"
    if request.param == "array":
        bp.save(path, np.arange(30_000.0), chunks=10_000)
    else:
        with bp.frames.create(path) as store:
            store.append("a", np.zeros((3, 40, 50), "u1"))
    return path.read_bytes()


def test_bytes_views_and_files(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("rb") as file:
        for where in (data, memoryview(data), bytearray(data), file, path, str(path)):
            assert bp.verify(where).ok
            target = io.BytesIO()
            assert bp.recover(where, target).saved == 3
            assert bp.verify(target.getvalue()).ok


def test_streams_are_read_once(data: bytes) -> None:
    assert bp.verify(Stream(data)).ok
    target = io.BytesIO()
    assert bp.recover(Stream(data), target).saved == 3


def test_pipes_are_read_once(data: bytes, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(data,))
    writer.start()
    assert bp.verify(pipe).ok
    writer.join()


def test_other_files() -> None:
    for function in (bp.verify, lambda where: bp.recover(where, io.BytesIO())):
        with pytest.raises(NotBloscpackError):
            function(b"something else" * 20)
        with pytest.raises(FileNotFoundError):
            function("missing")
        with pytest.raises(TypeError):
            function(3)
