"""A folder that new files are written into, and nothing outside of it.

Names are paths of whoever extracts, with ``/``; that none of them leads out is checked here once
more. No link is followed, neither in the place of a file nor in that of a folder.
"""

import os
import stat
from contextlib import suppress

from ..wire import BytesLike

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_FLAGS |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class NewFolder:
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
        self._folders: set[str] = set()
        os.makedirs(self.root, exist_ok=True)
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
            Its descriptor, for writing.

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
        for depth in range(1, len(folders) + 1):
            folder = "/".join(folders[:depth])
            if folder not in self._folders:
                _make_folder(self.path(folder))
                self._folders.add(folder)
        path = self.path(name)
        if self._overwrite:
            with suppress(FileNotFoundError):
                os.unlink(path)
        return os.open(path, _FLAGS, 0o666)

    def write(self, name: str, data: BytesLike) -> None:
        """Write a whole file; errors as for `create`."""
        with os.fdopen(self.create(name), "wb") as stream:
            stream.write(data)


def _is_plain(part: str) -> bool:
    """Return whether a part of a name is one here, whatever the system separates names with."""
    separators = {os.sep, os.altsep or os.sep}
    is_drive = bool(os.path.splitdrive(part)[0])
    return part not in ("", ".", "..") and not separators & set(part) and not is_drive


def _make_folder(path: str) -> None:
    """Make a folder, or use the one that is there if it is no link."""
    try:
        os.mkdir(path)
    except FileExistsError:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            raise
