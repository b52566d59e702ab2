"""Parts of a file that several processes write, and the one file they become.

The parts of one job lie in a folder beside the file they are for. The folder is made before there
are workers and renamed before it is emptied, so that a worker that comes late finds no place to
write to, and nothing stays behind.
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
from .sink import FileSink, NewFile

# Of a folder with parts, and of one that is being removed.
SUFFIX = ".parts"
_GONE_SUFFIX = ".gone"
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
GONE = "the parts of this job are gone: it was committed or aborted, or was never begun"


def new_id() -> str:
    """Return a name for a job that no other one has."""
    return os.urandom(8).hex()


def checked_id(id_: str) -> str:
    """Return the id of a job, which becomes part of a name.

    Raises
    ------
    ValueError
        It cannot.
    """
    if not isinstance(id_, str) or not _ID.fullmatch(id_):
        raise ValueError(
            f"id must be 1 to 64 letters, digits, '_' and '-' of ASCII, not {id_!r:.100}"
        )
    return id_


class PartFolder:
    """Where the parts of one job wait, and where they are joined.

    Pickles as the path and the id. Making one changes nothing on disk.

    Parameters
    ----------
    path : str or PathLike
        The file to be.
    id_ : str
        Tells the jobs for one file apart; letters, digits, "_" and "-".
    overwrite : bool
        Whether a file that is there may be replaced.

    Attributes
    ----------
    name : str
        The path as the caller called it.
    target : str
        Where the file will be, whatever becomes of the working directory; no link.
    """

    def __init__(self, path: str | os.PathLike[str], id_: str, *, overwrite: bool) -> None:
        self.name = os.fsdecode(path)
        self.target = os.path.realpath(self.name)
        self._overwrite = overwrite
        # Not the name itself, which may be as long as names can be.
        folder, name = os.path.split(self.target)
        self._prefix = os.path.join(folder, f".bloscpack-{xxh3_64_hexdigest(os.fsencode(name))}-")
        self._folder = self._prefix + checked_id(id_) + SUFFIX

    def begin(self) -> None:
        """Make the place for parts; it may be there already.

        Raises
        ------
        LockedError
            A writer has the file open that would be replaced.
        FileExistsError
            There is a file that must not be replaced.
        OSError
            The folder cannot be made; what is there is no regular file.
        """
        self._check_target()
        check_unlocked(self.target)
        try:
            disk.make_folder(self._folder)
        except FileExistsError:
            if not os.path.isdir(self._folder):
                raise
        except OSError as err:
            err.filename = self.name  # the name of the folder would puzzle
            raise

    def create_part(self, key: str) -> NewFile:
        """Return a sink for a new part; it counts once somebody knows its key.

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
        """Return a part, to be read.

        Raises
        ------
        FileNotFoundError
            There is none.
        """
        return FileSource(os.path.join(self._folder, key))

    def open_target(self) -> FileSource:
        """Return the file that is there under the final name; FileNotFoundError if none is."""
        return FileSource(self.target)

    def target_tag(self) -> str:
        """Return what tells the file that is there under the final name from others; "" if none."""
        try:
            status = os.stat(self.target)
        except FileNotFoundError:
            return ""
        return f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"

    def join(self) -> "JoinedFile":
        """Return a sink for the whole file, which also takes parts; errors as for `begin`.

        Raises
        ------
        FileNotFoundError
            The job has ended.
        """
        if not os.path.isdir(self._folder):
            raise FileNotFoundError(errno.ENOENT, GONE, self.name)
        self._check_target()
        return JoinedFile(self.name, self.target, self._folder)

    def _check_target(self) -> None:
        if not os.path.lexists(self.target):
            return
        if not os.path.isfile(self.target):
            raise OSError(f"{self.name!r} is no regular file, which parts could replace")
        if not self._overwrite:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.name)

    def discard(self, *, others: bool = False) -> None:
        """Remove all parts, and what an interrupted `join` has left; there may be none.

        With `others`, also those of other jobs for the same file.
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
                    # An earlier removal did not end: first that, then this.
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
    """The whole file: appears under its name, durably, on `commit`; takes parts as they are.

    Parameters
    ----------
    name, target : str
        The file as the caller called it, and where it is.
    folder : str
        Of the parts; it is written there.
    """

    def __init__(self, name: str, target: str, folder: str) -> None:
        super().__init__(target, folder)
        self.name = name
        self._folder = folder

    def append_part(self, key: str, nbytes: int) -> None:
        """Append the first `nbytes` of a part, without looking at them.

        Raises
        ------
        OSError
            The part is shorter, or gone.
        """
        fd = os.open(os.path.join(self._folder, key), os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.copy_from(fd, nbytes)
        finally:
            os.close(fd)


def _remove(folder: str) -> None:
    """Remove a folder of files."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    for name in names:
        with suppress(FileNotFoundError):
            disk.unlink(os.path.join(folder, name))
    with suppress(FileNotFoundError):
        disk.remove_folder(folder)
