"""Journals of files that are replaced between the open and the lock of another program."""

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.container.reader import Container
from bloscpack.exceptions import LockedError
from bloscpack.storage import journal
from bloscpack.storage.journal import (
    check_unlocked,
    journal_path,
    replacing,
    try_resolve_journal,
)
from bloscpack.storage.update import UpdateFile

from ..openfiles import open_files

Writers = Callable[[Path], UpdateFile]


@pytest.fixture
def being_changed() -> Iterator[Writers]:
    """Function that saves a file and returns a writer, which has written a journal of it."""
    writers = []

    def change(path: Path) -> UpdateFile:
        bp.save(path, np.arange(1000) + len(writers))
        writer = UpdateFile.open(path)
        writers.append(writer)
        container = Container.open(writer)
        front = container.data_offset - container.header.table_size
        writer.begin(container.data_offset, [(0, front)])
        return writer

    yield change
    for writer in writers:
        writer.close()


def replace_before_lock(monkeypatch: pytest.MonkeyPatch, new: Path, path: Path) -> None:
    """Rename `new` and its journal to `path` as soon as a lock of the old file is tried."""
    lock = journal.try_lock

    def try_lock(fd: int, *, shared: bool = False) -> bool:
        if new.exists():
            os.replace(new, path)
            os.replace(journal_path(str(new)), journal_path(str(path)))
        return lock(fd, shared=shared)

    monkeypatch.setattr(journal, "try_lock", try_lock)


def test_reader_leaves_the_journal_of_a_new_file(
    tmp_path: Path,
    being_changed: Writers,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path, new = tmp_path / "a.blp", tmp_path / "new.blp"
    being_changed(path).close()  # its journal stays, as after a crash
    writer = being_changed(new)
    live = Path(journal_path(str(new))).read_bytes()
    replace_before_lock(monkeypatch, new, path)
    fd = os.open(path, os.O_RDONLY)
    try:
        assert not try_resolve_journal(str(path), fd)
        assert Path(journal_path(str(path))).read_bytes() == live
        assert journal.find_journal(str(path), fd) is None
        assert not caplog.records  # the journal is not of the file that was read, but not alien
    finally:
        os.close(fd)
    writer.path = str(path)
    writer.undo()
    assert not os.path.exists(journal_path(str(path)))


@pytest.mark.parametrize("has_journal", [False, True])
@pytest.mark.parametrize("is_replaced", [False, True])
def test_new_file_of_a_writer_is_not_replaced(
    tmp_path: Path,
    being_changed: Writers,
    monkeypatch: pytest.MonkeyPatch,
    has_journal: bool,
    is_replaced: bool,
) -> None:
    path, new = tmp_path / "a.blp", tmp_path / "new.blp"
    being_changed(path).close()
    if not has_journal:
        os.unlink(journal_path(str(path)))
    being_changed(new)
    live = Path(journal_path(str(new))).read_bytes()
    replace_before_lock(monkeypatch, new, path)
    with (
        pytest.raises(LockedError, match="another writer"),
        replacing(str(path)) if is_replaced else nullcontext(check_unlocked(str(path))),
    ):
        pytest.fail("the file would be replaced")
    assert Path(journal_path(str(path))).read_bytes() == live


def test_file_that_is_replaced_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, lock, calls = tmp_path / "a", journal.try_lock, []

    def try_lock(fd: int, *, shared: bool = False) -> bool:
        (tmp_path / "b").touch()
        os.replace(tmp_path / "b", path)
        calls.append(fd)
        return lock(fd, shared=shared)

    path.touch()
    monkeypatch.setattr(journal, "try_lock", try_lock)
    with pytest.raises(LockedError), replacing(str(path)):
        pytest.fail("the file would be replaced")
    assert len(calls) == journal.LOCK_ATTEMPTS
    assert open_files(tmp_path) == []
