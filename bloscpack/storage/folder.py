"""A folder that new files are written into, and nothing outside of it.

Names are paths of whoever extracts, with ``/``; that none of them leads out is checked here once
more. No link is followed, neither in the place of a file nor in that of a folder.
"""

import errno
import os
from contextlib import suppress

from ..types import BytesLike
from . import disk
from .descriptor import Descriptor

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_FOLDER = (errno.ENOTDIR, errno.ELOOP)


class Folder:
    """A folder that files are written to.

    Parameters
    ----------
    root : str or PathLike
        The folder; made if it is not there. It may itself be a link.
    overwrite : bool
        Whether it may have files already, of which those of the same names are replaced.

    Raises
    ------
    FileExistsError
        It has files and not `overwrite`.
    OSError
        It cannot be made.
    """

    def __init__(self, root: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        self.root = os.fspath(root)
        self._overwrite = overwrite
        os.makedirs(self.root, exist_ok=True)
        # Everything is reached from here, so that no name that is replaced meanwhile leads out.
        self._root = Descriptor(os.open(self.root, _FOLDER))
        if not overwrite and os.listdir(self.root):
            raise FileExistsError(f"folder {self.root!r} is not empty")

    def path(self, name: str) -> str:
        """Return the path of a file."""
        return os.path.join(self.root, *name.split("/"))

    def create(self, name: str) -> int:
        """Make a file that is not there, and the folders that it is in.

        Returns
        -------
        int
            Its descriptor, for reading and writing.

        Raises
        ------
        ValueError
            The name leads out of the folder.
        FileExistsError
            A file of this name is there and not to be replaced; or something else than a folder is
            in the place of a folder.
        OSError
            It cannot be made.
        """
        *folders, last = name.split("/")
        if not all(_is_plain(part) for part in (*folders, last)):
            raise ValueError(f"the name {name!r:.200} leads out of the folder {self.root!r}")
        with disk.naming(self.path(name)):
            folder = self._open_folder(folders)
            if self._overwrite:
                with suppress(FileNotFoundError):
                    os.unlink(last, dir_fd=folder.number)
            return os.open(last, _NEW, 0o666, dir_fd=folder.number)

    def _open_folder(self, names: list[str]) -> Descriptor:
        """Open a folder, which is made if it is not there; no link is followed."""
        folder = self._root
        for name in names:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder.number)
            try:
                number = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder.number)
            except OSError as err:
                if err.errno in _NO_FOLDER:
                    raise FileExistsError(errno.EEXIST, "there is something else", name) from err
                raise
            folder = Descriptor(number)
        return folder

    def reopen(self, name: str, fd_identity: tuple[int, int]) -> int:
        """Open a file for writing that was made here, and closed.

        Raises
        ------
        OSError
            It is another file now, or not there.
        """
        *folders, last = name.split("/")
        with disk.naming(self.path(name)):
            folder = self._open_folder(folders)
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(last, flags, dir_fd=folder.number)
            if disk.identity(fd) != fd_identity:
                os.close(fd)
                raise OSError(errno.ESTALE, "the file was replaced while it was written")
            return fd

    def write(self, name: str, data: BytesLike) -> None:
        """Write a whole file; errors as for `create`."""
        fd = self.create(name)
        try:
            with disk.naming(self.path(name)):
                disk.write_at(fd, 0, data)
        finally:
            os.close(fd)


def _is_plain(part: str) -> bool:
    """Return whether a part of a name is one here."""
    return part not in ("", ".", "..") and os.sep not in part
