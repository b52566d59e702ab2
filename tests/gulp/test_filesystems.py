"""Gulp directories on file systems without locks or free space."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from bloscpack.gulp import GulpChunk
from bloscpack.gulp.ingest.ingestlog import Journal, Plan
from bloscpack.storage import disk

from ..storage.test_filesystems import refuse


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS])
def test_an_ingest_without_locks_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fcntl, "flock", refuse(number))
    with pytest.raises(OSError, match=r"cannot lock files.*BLOSCPACK_LOCKING=0.*'gulped/"):
        Journal("gulped", Plan(1, 1, None))
    monkeypatch.setenv("BLOSCPACK_LOCKING", "0")
    with Journal("gulped", Plan(1, 1, None)) as journal:
        journal.begin()


def write_chunk(path: Path) -> None:
    chunk = GulpChunk(path, path.with_name("meta"))
    with chunk.open("wb"):
        chunk.append("a", {}, [b"\xff\xd8" + bytes(100_000)])


@pytest.mark.parametrize("call", ["write_at", "sync", "replace"])
def test_each_failing_step_of_a_gulp_chunk_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    monkeypatch.setattr(disk, call, refuse(errno.EDQUOT))
    with pytest.raises(OSError, match=r"a\.gulp|meta") as caught:
        write_chunk(tmp_path / "a.gulp")
    assert caught.value.errno == errno.EDQUOT


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs the full device of Linux")
@pytest.mark.parametrize("nbytes", [10, 100_000])
def test_a_full_disk_is_reported_with_the_gulp_chunk(tmp_path: Path, nbytes: int) -> None:
    """Writing a small frame fails when it is flushed, writing a large one immediately."""
    path = tmp_path / "a.gulp"
    path.symlink_to("/dev/full")
    chunk = GulpChunk(path, tmp_path / "meta")

    def write() -> None:
        with chunk.open("wb"):
            chunk.append("a", {}, [b"\xff\xd8" + bytes(nbytes)])
            chunk.flush()

    with pytest.raises(OSError, match=r"No space left on device: '.*a\.gulp'"):
        write()
