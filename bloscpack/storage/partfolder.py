"""Parts of a file that several processes write in a folder, and their joining into one file.

The parts of a job are in a folder beside the final file. The folder is created before the workers
start and renamed before it is emptied. A late worker therefore finds no folder to write to, and
leaves nothing behind.
"""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import suppress

from xxhash import xxh3_64_hexdigest

from . import disk
from .file import FileSource
from .journal import check_unlocked
from .newfile import NewFile, check_regular
from .sink import FileSink, check_absent

# Suffixes of a folder with parts, and of one that is being removed.
SUFFIX = ".parts"
_GONE_SUFFIX = ".gone"
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
GONE = "the parts of this job are gone: it was committed or aborted, or was never begun"


def new_id() -> str:
    """Return a random, unique job id."""
    return os.urandom(8).hex()


def checked_id(id_: str) -> str:
    """Return a job id after a check that it can be part of a file name.

    Raises
    ------
    ValueError
        It has other characters, or a wrong length.
    """
    if not isinstance(id_, str) or not _ID.fullmatch(id_):
        raise ValueError(f"id must be 1 to 64 ASCII letters, digits, '_' or '-', not {id_!r:.100}")
    return id_


class PartFolder:
    """Folder for the parts of one job, in which they are also joined.

    Pickled as the path and the id, which distinguishes the jobs for one file: letters, digits, "_"
    and "-". Creating this object changes nothing on disk. `name` is the path as the caller gave it,
    `target` the absolute path of the final file, with links resolved.
    """

    def __init__(self, path: str | os.PathLike[str], id_: str, *, overwrite: bool) -> None:
        self.name = os.fsdecode(path)
        self.target = disk.target_of(self.name)
        self._overwrite = overwrite
        # A digest, as the name itself may have the maximum length already.
        folder, name = os.path.split(self.target)
        self._prefix = os.path.join(folder, f".bloscpack-{xxh3_64_hexdigest(os.fsencode(name))}-")
        self._folder = self._prefix + checked_id(id_) + SUFFIX

    def begin(self) -> None:
        """Create the folder for parts; it may exist already.

        Raises
        ------
        LockedError
            A writer has the file to be replaced open.
        FileExistsError
            The file exists and may not be replaced.
        OSError
            The folder cannot be created, or the target exists and is not a regular file.
        """
        self._check_target()
        check_unlocked(self.target)
        try:
            disk.make_folder(self._folder)
        except FileExistsError:
            # A link may lead to a folder of other files, which `discard` would remove.
            if os.path.islink(self._folder) or not os.path.isdir(self._folder):
                raise
        except OSError as err:
            err.filename = self.name  # not the hidden folder, which means nothing to the caller
            raise

    def create_part(self, key: str) -> NewFile:
        """Return a sink for a new part, which is used only if its key is recorded.

        Raises
        ------
        FileNotFoundError
            The job has ended.
        """
        try:
            return NewFile(os.path.join(self._folder, key), self.target, self.name)
        except FileNotFoundError as err:
            raise FileNotFoundError(err.errno, GONE, self.name) from err

    def open_part(self, key: str) -> FileSource:
        """Open a part for reading.

        Raises
        ------
        FileNotFoundError
            It does not exist.
        """
        return FileSource(os.path.join(self._folder, key))

    def open_target(self) -> FileSource:
        """Open the file that now has the final name; FileNotFoundError if it does not exist."""
        return FileSource(self.target)

    def target_tag(self) -> str:
        """Return a string that identifies the file that now has the final name; "" if none has."""
        return disk.tag_of(self.target)

    def join(self) -> "JoinedFile":
        """Return a sink for the final file, which also takes parts; raises as `begin` does.

        Raises
        ------
        FileNotFoundError
            The job has ended.
        """
        if not os.path.isdir(self._folder):
            raise FileNotFoundError(errno.ENOENT, GONE, self.name)
        self._check_target()
        return JoinedFile(self.name, self.target, self._folder, overwrite=self._overwrite)

    def _check_target(self) -> None:
        check_absent(self.name, overwrite=self._overwrite)
        check_regular(self.target, self.name)

    def discard(self, *, others: bool = False) -> None:
        """Remove all parts, if any, and the remains of an interrupted `join`.

        With `others`, also remove those of other jobs for the same file.
        """
        folders = {self._folder, self._gone(self._folder)}
        if others:
            folders.update(self._all_folders())
        for folder in sorted(folders):
            gone = folder
            if folder.endswith(SUFFIX):
                gone = self._gone(folder)
                try:
                    disk.replace(folder, gone)
                except FileNotFoundError:
                    continue
                except OSError as err:
                    if err.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                        raise
                    # An earlier removal was interrupted: finish it first.
                    _remove(gone)
                    disk.replace(folder, gone)
            _remove(gone)

    def _all_folders(self) -> Iterator[str]:
        parent, prefix = os.path.split(self._prefix)
        with suppress(FileNotFoundError):
            for name in os.listdir(parent):
                if name.startswith(prefix) and name.endswith((SUFFIX, _GONE_SUFFIX)):
                    yield os.path.join(parent, name)

    def _gone(self, folder: str) -> str:
        return folder.removesuffix(SUFFIX) + _GONE_SUFFIX


class JoinedFile(FileSink):
    """Sink for the final file: takes parts unchanged and appears, whole and durable, on `commit`.

    The temporary file is written to `folder`, that of the parts.
    """

    def __init__(self, name: str, target: str, folder: str, *, overwrite: bool) -> None:
        super().__init__(target, folder, overwrite=overwrite)
        self.name = name
        self._folder = folder

    def append_part(self, key: str, nbytes: int) -> None:
        """Append the first `nbytes` of a part without examining them.

        Raises
        ------
        OSError
            The part is shorter or does not exist.
        """
        path = os.path.join(self._folder, key)
        with disk.closing(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as fd:
            self.copy_from(fd, nbytes)


def _remove(folder: str) -> None:
    """Remove a folder and the files in it; of a link, only the link."""
    if os.path.islink(folder):
        disk.unlink(folder)
        return
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    for name in names:
        with suppress(FileNotFoundError):
            disk.unlink(os.path.join(folder, name))
    with suppress(FileNotFoundError):
        disk.remove_folder(folder)
