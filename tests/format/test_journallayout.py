"""Rollback journal: its bytes, when it is invalid, and to which file it belongs."""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xxhash import xxh3_64_digest

import bloscpack as bp
from bloscpack.format.journallayout import (
    JOURNAL_HEADER_SIZE,
    JOURNAL_START_NBYTES,
    pack_journal_start,
    unpack_journal,
)
from bloscpack.storage.file import FileSource

from ..conftest import Warned
from ..faults.disk import Crash, StoppingDisk, installed

OLD = np.arange(250, dtype="i4")
NEW = np.arange(700, dtype="i4")


def grow(path: Path) -> None:
    with bp.open(path, "a", nthreads=1) as a:
        a.append(NEW[250:])


def count_steps(path: Path) -> int:
    counting = StoppingDisk()
    with installed(counting):
        grow(path)
    return counting.count


def die(path: Path, *, chunks: int = 100) -> tuple[Path, bytes]:
    """Return a file whose writer died before its journal was removed, and its old content."""
    bp.save(path, OLD, chunks=chunks)
    steps = count_steps(path)
    bp.save(path, OLD, chunks=chunks)
    before = path.read_bytes()
    with installed(StoppingDisk(steps - 2, "crash")), suppress(Crash):
        grow(path)
    journal = path.with_name(path.name + ".journal")
    assert journal.exists()
    assert path.read_bytes() != before
    return journal, before


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.blp"


class TestBytes:
    def test_layout(self, path: Path) -> None:
        """Field by field, as in docs/formats/bloscpack.md."""
        journal, before = die(path)
        data = journal.read_bytes()
        status = path.stat()
        assert data[:8] == b"BLPKUNDO"
        assert data[8:16] == bytes([1, 0, 0, 0, 2, 0, 0, 0])
        assert int.from_bytes(data[16:24], "little") == len(before)
        assert int.from_bytes(data[24:32], "little") == status.st_ino
        assert int.from_bytes(data[32:40], "little") == status.st_dev
        with bp.open(before) as a:
            front = a.chunk_offset(0) - a.header.table_size
            first, last = a.chunk_offset(0), a.chunk_offset(2)
        assert data[40:48] == xxh3_64_digest(before[first:last])
        assert int.from_bytes(data[48:56], "little") == len(data) - 64 - 32
        assert data[56:64] == xxh3_64_digest(data[:56] + data[64:])
        extents = [int.from_bytes(data[at : at + 8], "little") for at in range(64, 96, 8)]
        assert extents == [0, front, last, len(before) - last]
        assert data[96:] == before[:front] + before[last:]

    def test_a_prefix_is_not_a_journal(self, path: Path) -> None:
        journal, _ = die(path)
        data = journal.read_bytes()
        assert unpack_journal(data[:JOURNAL_START_NBYTES], len(data)) is not None
        for size in range(len(data)):
            assert unpack_journal(data[: min(size, JOURNAL_START_NBYTES)], size) is None

    @pytest.mark.parametrize(
        "extents",
        [
            [],
            [(1, 200)],
            [(0, 200), (100, 50)],
            [(0, 200), (2**63, 50)],
            [(0, 20)],
            [(0, 100), (200, 50), (300, 9)],
        ],
    )
    def test_regions_that_cannot_be(self, path: Path, extents: list[tuple[int, int]]) -> None:
        head, table = pack_journal_start(1000, (1, 2), bytes(8), extents)
        bp.save(path, OLD)
        content = path.read_bytes().ljust(2000, b"\0")
        payload = sum(nbytes for _, nbytes in extents)
        data = head + bytes(8) + table + content[:payload]
        assert len(head) + 8 == JOURNAL_HEADER_SIZE
        assert unpack_journal(data, len(data)) is None


class TestReplay:
    def test_by_a_reader(self, path: Path) -> None:
        journal, before = die(path)
        assert np.array_equal(bp.load(path), OLD)
        assert path.read_bytes() == before
        assert not journal.exists()

    def test_verify_and_recover_look_only(self, path: Path, tmp_path: Path) -> None:
        journal, before = die(path)
        torn = path.read_bytes()
        assert bp.verify(path).ok
        bp.recover(path, tmp_path / "b.blp")
        assert np.array_equal(bp.load(tmp_path / "b.blp"), OLD)
        assert path.read_bytes() == torn
        assert journal.exists()
        assert bp.verify(path, fix=True).ok
        assert path.read_bytes() == before

    def test_verify_beside_a_writer(self, path: Path) -> None:
        bp.save(path, OLD, chunks=100)
        with bp.open(path, "a", nthreads=1) as a:
            a.append(NEW[250:])
            torn = path.read_bytes()
            assert bp.verify(path).ok
            with pytest.raises(bp.exceptions.LockedError):
                bp.verify(path, fix=True)
            assert path.read_bytes() == torn

    @pytest.mark.parametrize("chunks", [100, 50, 1000])
    def test_through_a_link(self, path: Path, tmp_path: Path, chunks: int) -> None:
        _, before = die(path, chunks=chunks)
        (tmp_path / "folder").mkdir()
        link = tmp_path / "folder" / "link"
        link.symlink_to(path)
        assert np.array_equal(bp.load(link), OLD)
        assert path.read_bytes() == before

    def test_a_file_that_cannot_be_written(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        journal, _ = die(path)
        torn = path.read_bytes()
        real = os.open

        def refuse(name: Any, flags: int, *rest: Any, **more: Any) -> int:
            if flags & os.O_RDWR:
                raise PermissionError(13, "read-only")
            return real(name, flags, *rest, **more)

        monkeypatch.setattr(os, "open", refuse)
        assert np.array_equal(bp.load(path), OLD)
        assert bp.verify(path).ok
        assert path.read_bytes() == torn
        assert journal.exists()

    def test_a_copy_of_both(self, path: Path, tmp_path: Path) -> None:
        journal, before = die(path)
        copy = tmp_path / "b.blp"
        shutil.copy(path, copy)
        shutil.copy(journal, tmp_path / "b.blp.journal")
        assert np.array_equal(bp.load(copy), OLD)
        assert copy.read_bytes() == before

    def test_damage_makes_it_none(self, path: Path) -> None:
        journal, _ = die(path)
        torn, data = path.read_bytes(), journal.read_bytes()
        for at in (0, 8, 12, 20, 30, 45, 50, 60, 70, 100, len(data) - 1):
            damaged = bytearray(data)
            damaged[at] ^= 1
            journal.write_bytes(damaged)
            with bp.open(path):
                pass
            assert path.read_bytes() == torn
            assert journal.read_bytes() == damaged


def other_array(path: Path) -> None:
    other = path.with_name("other")
    bp.save(other, OLD[::-1].copy(), chunks=100)
    other.replace(path)


def other_of_one_chunk(path: Path) -> None:
    """Write a file with the same front, so that only the inode differs."""
    other = path.with_name("other")
    bp.save(other, OLD[::-1].copy(), chunks=1000)
    other.replace(path)


def written_over(path: Path) -> None:
    other = path.with_name("other")
    bp.save(other, OLD[::-1].copy(), chunks=100)
    path.write_bytes(other.read_bytes())  # the inode stays


class TestForeign:
    @pytest.mark.parametrize(
        ("change", "chunks"),
        [(other_array, 100), (other_of_one_chunk, 1000), (written_over, 100)],
    )
    def test_is_ignored_and_reported(
        self,
        change: Callable[[Path], None],
        chunks: int,
        path: Path,
        warned: Warned,
    ) -> None:
        journal, _ = die(path, chunks=chunks)
        change(path)
        replaced = path.read_bytes()
        assert np.array_equal(bp.load(path), OLD[::-1])
        assert "another file" in warned.text
        assert path.read_bytes() == replaced
        assert journal.exists()
        with bp.open(path, "a") as a:
            a.append(OLD)
        assert not journal.exists()
        assert len(bp.load(path)) == 500

    def test_of_another_user(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        journal, _ = die(path)
        path.chmod(0o644)
        torn = path.read_bytes()
        real = os.fstat
        inode = journal.stat().st_ino

        class Status:
            def __init__(self, status: os.stat_result) -> None:
                self._status = status

            def __getattr__(self, name: str) -> Any:
                return 12345 if name == "st_uid" else getattr(self._status, name)

        def fstat(fd: int) -> Any:
            status = real(fd)
            return Status(status) if status.st_ino == inode else status

        monkeypatch.setattr(os, "fstat", fstat)
        with bp.open(path):
            assert path.read_bytes() == torn
        path.chmod(0o664)  # the journal of another user is accepted if others may write the file
        with bp.open(path) as a:
            assert a.shape == (250,)

    @pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
    def test_paths_that_are_not_files(self, path: Path, kind: str) -> None:
        bp.save(path, OLD)
        journal = path.with_name("a.blp.journal")
        if kind == "folder":
            journal.mkdir()
        elif kind == "link":
            journal.symlink_to(path)
        else:
            os.mkfifo(journal)
        assert np.array_equal(bp.load(path), OLD)


def test_an_append_that_begins_while_the_front_is_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer reaches any step between the search for a journal and the read of the front."""
    bp.save(path, OLD, chunks=100)
    steps = count_steps(path)
    before_append = FileSource.before_append
    for step in range(steps + 1):
        bp.save(path, OLD, chunks=100)
        began = False

        def interrupted(self: FileSource, *, replays: bool, stop_at: int = step) -> Any:
            nonlocal began
            result = before_append(self, replays=replays)
            if not began:
                began = True
                with installed(StoppingDisk(stop_at, "crash")), suppress(Crash):
                    grow(path)
            return result

        with monkeypatch.context() as patch:
            patch.setattr(FileSource, "before_append", interrupted)
            with bp.open(path) as a:
                assert len(a) in (250, 700)
                assert np.array_equal(a[:], NEW[: len(a)])
        assert began
