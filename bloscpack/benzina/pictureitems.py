"""Items for a dataset: a picture with its target and name; those of a folder of pictures."""

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

SUFFIXES = (
    ".jpg",
    ".jpeg",
    ".jpe",
    ".png",
    ".gif",
    ".bmp",
    ".tif",
    ".tiff",
    ".webp",
    ".ppm",
    ".pgm",
    ".pbm",
    ".avif",
    ".jp2",
)
"""What files of pictures end with, in lower case; others in a folder are passed over."""


class Item(NamedTuple):
    """One picture on its way into a dataset.

    Attributes
    ----------
    picture : object
        Whatever `read_picture` takes.
    target : int or None
        Its class, or any other number of 64 bits.
    name : str, bytes or None
        What it is called.
    """

    picture: Any
    target: int | None = None
    name: str | bytes | None = None


class PictureFolder:
    """The pictures of a folder and of those in it, in the order of their names.

    Each folder at the top is a class, numbered in the order of their names; what lies deeper in it
    belongs to it. Files at the top have no class. The name of a picture is its path from the
    folder, with ``/``. The order is by code points, files of a folder before the folders in it;
    names that begin with a dot are passed over, links are followed.

    Parameters
    ----------
    root : str or PathLike
        The folder. It is listed at once, and the files are not looked at.

    Attributes
    ----------
    root : str
        The folder.
    classes : list of str
        Names of the classes; the target of a picture is the place of its class.

    Raises
    ------
    OSError
        A folder cannot be listed.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = os.fspath(root)
        above = (_identity(self.root),)
        names, folders = _listed(self.root)
        self.classes = folders
        # The path of each from the root, and the place behind the last one of each class.
        self._names = names
        self._stops = [len(names)]
        for folder in folders:
            self._names += _walk(self.root, folder, above)
            self._stops.append(len(self._names))

    def __len__(self) -> int:
        """Return the number of pictures."""
        return len(self._names)

    def __iter__(self) -> Iterator[Item]:
        """Yield an item for each picture, with its path."""
        for number, stop in enumerate(self._stops):
            start = self._stops[number - 1] if number else 0
            target = number - 1 if number else None
            for name in self._names[start:stop]:
                stored = os.fsencode(name if os.sep == "/" else name.replace(os.sep, "/"))
                yield Item(os.path.join(self.root, name), target, stored)


def _identity(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _listed(path: str) -> tuple[list[str], list[str]]:
    """Return the names of the pictures and of the folders in a folder, each in order."""
    names, folders = [], []
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                folders.append(entry.name)
            # A link that leads nowhere is an error when it is opened; a pipe would never end.
            elif entry.is_file() or entry.is_symlink():
                names += [entry.name] * entry.name.lower().endswith(SUFFIXES)
    return sorted(names), sorted(folders)


def _walk(root: str, top: str, above: tuple[tuple[int, int], ...]) -> Iterator[str]:
    """Yield the paths of pictures in a folder and below; links that lead up are not followed."""
    todo = [(top, above)]
    while todo:
        folder, parents = todo.pop()
        identity = _identity(os.path.join(root, folder))
        if identity in parents:
            continue
        names, folders = _listed(os.path.join(root, folder))
        for name in names:
            yield os.path.join(folder, name)
        within = (*parents, identity)
        todo += [(os.path.join(folder, name), within) for name in reversed(folders)]
