"""Journal of an ingest: the plan and the finished chunks, so that a run can continue after a crash.

The journal is in the folder ``.ingest`` of the Gulp directory, beside the chunks being written; the
folder is removed at the end of the ingest. It is text with one JSON value per line: the plan, then
one line per chunk, synced before the files of the chunk get their names. It is locked during the
ingest.
"""

import json
import os
import shutil
from typing import Any, NamedTuple, Self

from ...plugin import LockedError, UnsupportedError, disk, is_locking, try_lock_for_writing
from ..chunk.format import chunk_names

FOLDER = ".ingest"
_NAME = "journal"
# Limit on a line, which lists the ids of skipped items: the file may be damaged.
_MAX_NBYTES = 1 << 28


class Plan(NamedTuple):
    """Plan of an ingest."""

    # Number of items in total, and per chunk.
    items: int
    items_per_chunk: int
    ids: str | None  # digest of the ids in order, if they are known in advance


class Done(NamedTuple):
    """A chunk that has been written."""

    position: int  # ordinal of the chunk in the plan
    number: int  # number of the chunk, as in the names of its files
    nbytes: list[int]  # sizes of the data file and the index
    # Number of items and frames in the chunk.
    items: int
    frames: int
    skipped: list[list[str]]  # items that were skipped

    def has_numbers(self) -> bool:
        """Return whether its numbers are integers: they become names of files, from a journal."""
        numbers = (self.position, self.number, self.items, self.frames, *self.nbytes)
        return all(type(each) is int and each >= 0 for each in numbers)


class Journal:
    """Journal of a Gulp directory, locked; a context manager.

    `done`, by position, is what an interrupted ingest of the same plan has finished; `is_resumed`
    if there was one, `is_other` if there was one of another plan, until `begin`.
    """

    def __init__(self, folder: str, plan: Plan) -> None:
        self.folder = folder
        self.scratch = os.path.join(folder, FOLDER)
        self._path = os.path.join(self.scratch, _NAME)
        self.is_finished = False
        self._fd = self._open()
        try:
            old_plan, chunks, self._end = self._read()
            self.is_resumed = old_plan == plan
            self.is_other = old_plan is not None and old_plan != plan
            self.done = {chunk.position: chunk for chunk in chunks} if self.is_resumed else {}
            self._plan = plan
            self._remove_leftovers()
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Release the lock; the journal stays if some chunks are done, but not all."""
        try:
            if not self.is_finished:
                self._remove_leftovers()
                if not (self.done or self.is_other):
                    self.finish()
        finally:
            os.close(self._fd)

    def begin(self) -> None:
        """Record the plan unless it is resumed; entries of another plan are deleted."""
        if not self.is_resumed:
            with disk.naming(self._path):
                disk.truncate(self._fd, 0)
            self._end = 0
            self._append(self._plan._asdict())
            self.is_other = False

    def add(self, chunk: Done) -> None:
        """Record that a chunk is written; durable when this returns."""
        self._append(chunk._asdict())
        self.done[chunk.position] = chunk

    def is_there(self, chunk: Done) -> bool:
        """Return whether the files of a chunk have their final names."""
        names = chunk_names(chunk.number)
        try:
            sizes = [
                os.stat(os.path.join(self.folder, name)).st_size
                for name in (names.data, names.meta)
            ]
        except FileNotFoundError:
            return False
        return sizes == chunk.nbytes

    def finish(self) -> None:
        """Remove the journal and its folder."""
        self.is_finished = True
        shutil.rmtree(self.scratch, ignore_errors=True)

    def new_name(self, position: int) -> str:
        """Return a temporary path, without suffix, for a chunk.

        It is always a new path, as a worker of a killed ingest may still be writing to the old one.
        """
        return os.path.join(self.scratch, f"{position}-{os.urandom(4).hex()}")

    def _open(self) -> int:
        """Open the file and lock it."""
        if os.path.islink(self.scratch):  # what is in it is removed at the end
            raise UnsupportedError(
                "it is a link, and an ingest would remove the files there; remove the link"
            ).at(path=self.scratch)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        while True:
            os.makedirs(self.scratch, exist_ok=True)
            try:
                fd = os.open(self._path, flags, 0o666)
            except FileNotFoundError:  # the ingest that used it has removed the folder
                continue
            try:
                is_mine = not is_locking() or try_lock_for_writing(fd, self._path)
            except OSError:
                os.close(fd)
                raise
            if not is_mine:
                os.close(fd)
                raise LockedError(f"{self.folder}: another ingest is writing to it")
            try:
                if os.path.samestat(os.fstat(fd), os.stat(self._path)):
                    return fd
            except FileNotFoundError:
                pass
            os.close(fd)  # removed between opening and locking

    def _read(self) -> tuple[Plan | None, list[Done], int]:
        """Return the plan, the chunks, and the offset after the last complete line."""
        data = b""
        while len(data) < _MAX_NBYTES and (part := os.pread(self._fd, 1 << 20, len(data))):
            data += part
        end = data.rfind(b"\n") + 1
        try:
            lines: list[dict[str, Any]] = [json.loads(line) for line in data[:end].splitlines()]
            if not lines:
                return None, [], 0
            plan, chunks = Plan(**lines[0]), [Done(**line) for line in lines[1:]]
            are_numbers = all(chunk.has_numbers() for chunk in chunks)
        except (ValueError, TypeError, RecursionError):
            are_numbers = False
        return (plan, chunks, end) if are_numbers else (None, [], 0)  # damaged: ignored

    def _remove_leftovers(self) -> None:
        """Remove unfinished chunks of an interrupted ingest."""
        for name in os.listdir(self.scratch):
            if name != _NAME:
                disk.unlink(os.path.join(self.scratch, name))

    def _append(self, value: dict[str, Any]) -> None:
        line = json.dumps(value).encode("ascii") + b"\n"
        with disk.naming(self._path):
            disk.write_at(self._fd, self._end, line)
            disk.truncate(self._fd, self._end + len(line))
            disk.sync(self._fd)
        self._end += len(line)
