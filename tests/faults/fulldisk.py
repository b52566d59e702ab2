"""A disk that is full, and the error that names the file."""

import errno
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

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
