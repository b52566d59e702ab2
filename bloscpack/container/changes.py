"""File of an array whose chunks change, by this process alone.

A file of version 3 becomes a log at the first change: its chunks are verified and copied as stored
to a new file, which replaces it at the first commit.
"""

import os
from collections.abc import Mapping
from typing import Any, Self

from ..exceptions import UnsupportedError
from ..format.codec import decode_into, new_bytes
from ..format.header import Header
from ..format.log import MAX_KEEP, NO_ROW, Commit, Node, Tree, pack_group
from ..storage.overlay import OverlaySource
from ..storage.protocol import closed_on_error, errors_at
from ..storage.update import UpdateFile, forked_error
from ..types import BytesLike
from .front import Verify
from .log import front_of, read_extent, split_chunk
from .logwriter import ChangingTree, LogWriter
from .reader import Container


class ChangingFile:
    """File of an array that chunks are set in; takes ownership of `file`.

    Attributes
    ----------
    container : Container
        The file as of the last commit.
    nchunks : int
        Number of chunks that have been written, committed or not.
    keep : int or None
        How many commits before the last one stay readable from the next commit on; None for as many
        as the file says.
    """

    def __init__(
        self, file: UpdateFile, container: Container, *, locking: bool, keep: int | None = None
    ) -> None:
        if keep is not None and not 0 <= keep <= MAX_KEEP:
            raise ValueError(f"keep must be 0 to {MAX_KEEP} versions, not {keep}")
        front = container.front
        if front.last_chunk > front.chunk_size:
            raise UnsupportedError("the last chunk is larger than the others: save the array again")
        self.container = container
        self._file = file
        self._locking = locking
        self.keep = keep
        self._pid = os.getpid()
        self._name = file.name or file.path
        # The new file that replaces `file` at the first commit.
        self._log: LogWriter | None = None
        self._rows: ChangingTree | None = None
        self._group = NO_ROW
        commit = container.front.commit
        if commit is not None:
            self._log = LogWriter(file, commit)
            self._open_rows(commit)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, locking: bool = True, keep: int | None = None
    ) -> Self:
        """Open and lock a file; `keep` is the attribute.

        Raises
        ------
        LockedError
            Another writer has it open.
        FormatError
            It is damaged.
        OSError
            It does not exist or cannot be written.
        """
        file = UpdateFile.open(path, locking=locking)
        with closed_on_error(file, file.name):
            return cls(file, Container.open(file), locking=locking, keep=keep)

    def _open_rows(self, commit: Commit) -> None:
        table: Any = self.container.front.table
        self._rows = ChangingTree(self._file, table.node.chunks, "log")
        self._group = commit.groups.root

    @property
    def is_keep_new(self) -> bool:
        """Whether the file does not say yet how many commits to keep."""
        commit = self.container.front.commit
        return self.keep not in (None, commit.keep if commit else 0)

    @property
    def is_mine(self) -> bool:
        """Whether this process opened the file."""
        return self._pid == os.getpid()

    def check_mine(self) -> None:
        """Check that this process opened the file; raises LockedError."""
        if not self.is_mine:
            raise forked_error(self._pid, self._name)

    @property
    def is_published(self) -> bool:
        """Whether the file exists under its final name: always, as it was opened there."""
        return True

    def begin(self) -> tuple[LogWriter, ChangingTree]:
        """Return the log and the rows of its chunks, which a file of version 3 becomes."""
        if self._log is None or self._rows is None:
            file = UpdateFile.create(self._file.path, self._name, locking=self._locking)
            with closed_on_error(file):
                log, rows = LogWriter(file, None), ChangingTree(file, None, "log")
                checksum = self.container.header.checksum
                for index in range(self.container.nchunks):
                    data = self.container.fetch(index).data
                    rows.replace(index, log.add(data, checksum.digest(data)), log)
            self._log, self._rows = log, rows
        return self._log, self._rows

    def read_chunk(self, index: int, nbytes: int) -> bytes:
        """Return the decoded bytes of a chunk that was written, `nbytes` long.

        Raises
        ------
        FormatError, CodecError
            It is damaged.
        """
        log, rows = self.begin()
        row = rows.row(index)
        what = f"chunk {index} at offset {row.offset}"
        digest_nbytes = self.container.header.checksum.nbytes
        with errors_at(self._name):
            stored = memoryview(read_extent(log.file, row, what, rows.end))
            data, _ = split_chunk(stored, digest_nbytes, nbytes, row.offset, what)
            content, view = new_bytes(nbytes)
            with view:
                decode_into(data, view)
        return content

    def commit(self, front: bytes) -> None:
        """Make all changes durable; `front` are the header and the metadata section from now on."""
        log, rows = self.begin()
        if self.keep is not None:
            log.keep = self.keep
        node = Node("", front, rows.write(log))
        log.drop(self._group)
        self._group = log.add(pack_group([node]))
        commit = log.write_commit(Tree(self._group, 0, 1))
        file = log.file
        if file is not self._file:
            file.publish(self._file.path, self._file)
            self._file.close()
            self._file = file
        self.container = Container(front_of(file, commit, node), file, verify=self.container.verify)

    def rollback(self) -> None:
        """Return to the last commit."""
        if self._log is not None and self._log.file is not self._file:
            self._log.file.close()
            self._log = self._rows = None
        elif self._log is not None and self._log.commit is not None:
            self._log.rollback()
            self._open_rows(self._log.commit)

    def committed(self, verify: Verify) -> Container:
        """Return a container that reads the file as of the last commit."""
        source = OverlaySource(self._file, (), self._file.size())
        return Container(self.container.front, source, verify=verify)

    def view(self, front: bytes, held: Mapping[int, BytesLike], verify: Verify) -> Container:
        """Return a container that reads the file with all changes, of which `held` is in memory."""
        log, rows = self.begin()
        file = log.file
        commit = log.commit or Commit(0, 0, 0, 0, Tree(NO_ROW, 0, 1))
        node = Node("", front, Tree(NO_ROW, 0, Header.unpack(front).nchunks))
        source = OverlaySource(file, (), file.size())
        return Container(front_of(file, commit, node, rows, held=held), source, verify=verify)

    def close(self) -> None:
        """Close the file; what was not committed is lost."""
        try:
            if self.is_mine:
                if self._log is not None and self._log.file is self._file:
                    self._log.give_back_free()
                self.rollback()
        finally:
            self._file.close()
