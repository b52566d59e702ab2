"""Pictures with their targets and names, folders of them, and what they have beside pixels."""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..exceptions import FormatError
from ..parallel.imports import import_pillow
from .pictureparts import other_parts

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
"""Suffixes of picture files, in lower case; other files in a folder are ignored."""

# Names of Pillow for what says how pixels are coded, or is known from them.
_CODING = {
    *("adobe", "adobe_transform", "default_image", "duration", "background", "interlace", "loop"),
    *("jfif", "jfif_density", "jfif_unit", "jfif_version", "mp", "mpoffset", "progression"),
    *("progressive", "version", "extension", "compression", "bbox", "blend", "disposal"),
}
_NAMES = {"exif": "EXIF data", "icc_profile": "colour profile", "transparency": "transparency"}


class Item(NamedTuple):
    """One picture to copy or to add to a dataset."""

    # Path of a file; for a dataset, anything that its writer accepts.
    picture: Any
    target: int | None = None  # its class, or any other signed 64-bit number
    name: str | bytes | None = None


class PictureFolder:
    """The pictures in a folder and its subfolders, in the order of their names.

    Each folder at the top is a class, numbered in the order of their names; deeper folders belong
    to the class they are in. Files at the top have no class. The name of a picture is its path
    relative to the folder, with ``/``. Names are sorted by code point, with the files of a folder
    before its subfolders. Names that begin with a dot are ignored; links are followed.

    Parameters
    ----------
    root : str or PathLike
        The folder. It is listed at once; the files are not opened.

    Attributes
    ----------
    root : str
        The folder.
    classes : list of str
        Class names; the target of a picture is the index of its class.
    others : list of str
        Paths of other files.
    empty : list of str
        Classes without pictures.

    Raises
    ------
    OSError
        A folder cannot be listed.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = os.fspath(root)
        self.others: list[str] = []
        above = (_identity(self.root),)
        names, folders = self._list_folder("")
        self.classes = folders
        # Paths relative to the root, and the end of each class in that list.
        self._names = names
        self._stops = [len(names)]
        for folder in folders:
            self._names += self._walk(folder, above)
            self._stops.append(len(self._names))
        counts = np.diff(self._stops).tolist()
        self.empty = [folder for folder, n in zip(folders, counts, strict=True) if not n]

    def __len__(self) -> int:
        """Return the number of pictures."""
        return len(self._names)

    def __iter__(self) -> Iterator[Item]:
        """Yield an item per picture, with its path."""
        for number, stop in enumerate(self._stops):
            start = self._stops[number - 1] if number else 0
            target = number - 1 if number else None
            for name in self._names[start:stop]:
                stored = os.fsencode(name if os.sep == "/" else name.replace(os.sep, "/"))
                yield Item(os.path.join(self.root, name), target, stored)

    def _list_folder(self, folder: str) -> tuple[list[str], list[str]]:
        """Return the sorted names of the pictures and of the subfolders in a folder."""
        names, folders = [], []
        with os.scandir(os.path.join(self.root, folder)) as entries:
            for entry in entries:
                is_hidden = entry.name.startswith(".")
                if entry.is_dir() and not is_hidden:
                    folders.append(entry.name)
                    continue
                # A broken link raises an error when it is opened. Reading a pipe might never end.
                is_file = entry.is_file() or entry.is_symlink()
                if is_file and not is_hidden and entry.name.lower().endswith(SUFFIXES):
                    names.append(entry.name)
                else:
                    self.others.append(os.path.join(folder, entry.name))
        return sorted(names), sorted(folders)

    def _walk(self, top: str, above: tuple[tuple[int, int], ...]) -> Iterator[str]:
        """Yield the paths of pictures in a folder and below, ignoring links to a parent folder."""
        todo = [(top, above)]
        while todo:
            folder, parents = todo.pop()
            identity = _identity(os.path.join(self.root, folder))
            if identity in parents:
                continue
            names, folders = self._list_folder(folder)
            for name in names:
                yield os.path.join(folder, name)
            within = (*parents, identity)
            todo += [(os.path.join(folder, name), within) for name in reversed(folders)]


def _identity(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def lost_by_decoding(picture: Any) -> Iterator[str]:
    """Yield short texts for what a file, its bytes or a Pillow image has beside its pixels."""
    if isinstance(picture, str | os.PathLike):
        picture = Path(picture).read_bytes()
    elif isinstance(picture, bytearray | memoryview):
        picture = bytes(picture)
    with _opened(picture) as image:
        if image is None:
            return
        if getattr(image, "n_frames", 1) > 1:
            yield "further frames or pages of a picture"
        if image.mode == "P":
            yield "palette of a picture"
        info = dict(image.info)
        with suppress(OSError, ValueError, SyntaxError):
            info |= getattr(image, "text", {})  # of PNG, also behind the pixels
        for key in info:
            if key not in _CODING:
                yield f"{_NAMES.get(key, f'metadata {key!r:.80}')} of a picture"
        with suppress(FormatError):  # the reader of the pixels reports it
            parts = other_parts(picture) if isinstance(picture, bytes) else ()
            yield from (f"{part} of a picture" for part in parts)


def changed_in_rgb(picture: Any) -> Iterator[str]:
    """Yield short texts for what changes when a picture becomes RGB of 8 bits.

    The picture is a file, its bytes, an array or a Pillow image; nothing is yielded for any other.
    """
    if isinstance(picture, np.ndarray):
        mode = {2: "LA", 4: "RGBA"}.get(picture.shape[-1] if picture.ndim == 3 else 1, "RGB")
        is_deep, has_key = picture.dtype.itemsize > 1, False
    else:
        with _opened(picture) as image:
            if image is None:
                return
            mode, has_key = image.mode, "transparency" in image.info
            # Pillow opens RGB of 16 bits as if it had 8.
            stored = str([tile[3] for tile in getattr(image, "tile", ())])
            is_deep = mode.startswith("I") or ";16" in stored
    if "A" in mode or mode.endswith("a") or has_key:
        yield "transparency of a picture"
    if is_deep:
        yield "depth of a picture, of which 8 bits are kept"
    elif mode not in ("1", "L", "LA", "P", "PA", "RGB", "RGBA"):
        yield f"colours of a picture, which are {mode}"


@contextmanager
def _opened(picture: Any) -> Iterator[Any]:
    """Yield the Pillow image of a picture; None of an array, or if it cannot be read."""
    pillow = import_pillow()
    if isinstance(picture, pillow.Image):
        yield picture
        return
    if not isinstance(picture, str | os.PathLike | bytes | bytearray | memoryview):
        yield None
        return
    place: Any = picture if isinstance(picture, str | os.PathLike) else io.BytesIO(picture)
    try:
        image = pillow.open(place)
    except (OSError, ValueError, SyntaxError, pillow.DecompressionBombError):
        yield None  # the reader of the pixels reports it
        return
    with image:
        yield image
