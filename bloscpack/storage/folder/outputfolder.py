"""Output folder for extraction, which no file name can escape.

Names are relative paths with ``/``. Although callers check them, this module checks again that no
name leads outside. Symbolic links are not followed, neither for a file nor for a folder.
"""

import errno
import os
from contextlib import suppress

from ...types import BytesLike
from .. import disk
from ..descriptor import Descriptor
from ..url import refuse_url_as_target

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_FOLDER = (errno.ENOTDIR, errno.ELOOP)


class Folder:
    """Folder that files are written to, created if it does not exist; it may itself be a link.

    `overwrite` allows a folder that is not empty; files of the same names are replaced.

    Raises
    ------
    FileExistsError
        It is not empty and `overwrite` is false.
    OSError
        It cannot be created.
    """

    def __init__(self, root: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        refuse_url_as_target(root, "a folder")
        self.root = os.fspath(root)
        self._overwrite = overwrite
        os.makedirs(self.root, exist_ok=True)
        # All files are opened relative to this descriptor, so that replacing a folder by a link
        # during the extraction cannot lead outside.
        self._root = Descriptor(os.open(self.root, _FOLDER))
        if not overwrite and os.listdir(self.root):
            raise FileExistsError(f"folder {self.root!r} is not empty")

    def path(self, name: str) -> str:
        """Return the path of a file."""
        return os.path.join(self.root, *name.split("/"))

    def create(self, name: str) -> int:
        """Create a file, and the folders that contain it.

        Returns
        -------
        int
            Its descriptor, for reading and writing.

        Raises
        ------
        ValueError
            The name leads out of the folder.
        FileExistsError
            The file exists and may not be replaced, or a folder of the name is not a folder.
        OSError
            It cannot be created.
        """
        *folders, last = name.split("/")
        if not all(_is_plain(part) for part in (*folders, last)):
            raise ValueError(f"the name {name!r:.200} leads out of the folder {self.root!r}")
        with disk.naming(self.path(name)):
            folder = self._open_folder(folders)
            if self._overwrite:
                with suppress(FileNotFoundError):
                    os.unlink(last, dir_fd=folder)
            return os.open(last, _NEW, 0o666, dir_fd=folder)

    def _open_folder(self, names: list[str]) -> Descriptor:
        """Open a folder, creating it if needed; links are not followed."""
        folder = self._root
        for name in names:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
            try:
                number = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            except OSError as err:
                if err.errno in _NO_FOLDER:
                    raise FileExistsError(errno.EEXIST, "exists and is not a folder", name) from err
                raise
            folder = Descriptor(number)
        return folder

    def reopen(self, name: str, fd_identity: tuple[int, int]) -> int:
        """Reopen a file for writing that `create` made and the caller has closed.

        Raises
        ------
        OSError
            It was replaced or removed.
        """
        *folders, last = name.split("/")
        with disk.naming(self.path(name)):
            folder = self._open_folder(folders)
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(last, flags, dir_fd=folder)
            if disk.identity(fd) != fd_identity:
                os.close(fd)
                raise OSError(errno.ESTALE, "the file was replaced while it was being written")
            return fd

    def write(self, name: str, data: BytesLike) -> None:
        """Write a whole file; errors as for `create`."""
        with disk.closing(self.create(name)) as fd, disk.naming(self.path(name)):
            disk.write_at(fd, 0, data)


def _is_plain(part: str) -> bool:
    """Return whether a part of a name stays inside its folder."""
    return part not in ("", ".", "..") and os.sep not in part
