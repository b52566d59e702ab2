"""Folder of pictures as a source of clips: each file is a clip of one frame, byte for byte.

Files, their order and their classes are those of `media.pictureitems.PictureFolder`. JPEG and PNG
can be read; reading any other file raises an error.
"""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..exceptions import NotFoundError
from ..frames.indexing import IndexedClip
from ..frames.protocol import (
    FrameSelection,
    KeyedSource,
    frame_indices,
    read_clip,
    read_only_meta,
)
from ..media import image
from ..media.pictureitems import Item, PictureFolder, has_more_pictures
from ..storage.batch import Piece
from ..storage.memory import MemorySource
from ..storage.protocol import errors_at
from ..types import AnyArray, IntArray
from .inventory import Inventory, quoted


class FileClip(IndexedClip):
    """File of a folder as a clip of one frame; see `frames.protocol.Clip`."""

    decode_cost = 8.0  # of JPEG, as in `frames/store/clip.py`

    def __init__(self, item: Item, inventory: Inventory) -> None:
        self.id = id_of(item)
        self._inventory = inventory
        self._item = item
        self._content: bytes | None = None

    @property
    def content(self) -> bytes:
        """Bytes of the file."""
        if self._content is None:
            with open(self._item.picture, "rb") as stream:
                self._content = stream.read()
            if has_more_pictures(self._content):
                self._inventory.add(f"further frames or pages in {quoted(self.id)}")
        return self._content

    def _probe(self) -> image.ImageInfo:
        with errors_at(self._item.picture, whole=""):
            return image.probe(self.content, upright=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """``(1, H, W)`` or ``(1, H, W, C)``."""
        return 1, *self._probe().shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the pixels."""
        return self._probe().dtype

    @property
    def meta(self) -> dict[str, Any]:
        """Name and target of the file; the target is the number of its class, -1 without one."""
        target = self._item.target
        return read_only_meta({"name": self.id, "target": -1 if target is None else target})

    def __len__(self) -> int:
        """Return 1, the number of frames."""
        return 1

    def read(self, selection: FrameSelection = None, *, out: AnyArray | None = None) -> AnyArray:
        """Return frames in one array; see `frames.protocol.Clip`."""
        return read_clip(self, selection, out=out, nthreads=1)

    def read_images(self, selection: FrameSelection = None) -> list[bytes]:
        """Return the bytes of the file once for each selected frame."""
        count = len(frame_indices(selection, 1).indices)
        if count:
            self._probe()
        return [self.content] * count if count else []

    def frame_shape(self, indices: IntArray) -> tuple[int, ...]:
        """Return the shape of the picture."""
        return self._probe().shape

    def pieces(self, indices: IntArray, frames: AnyArray) -> Iterator[Piece]:
        """Return the reads that fill each of `frames` with the picture."""
        if len(indices):
            content = self.content
            yield Piece(MemorySource(content), 0, len(content), partial(_decode, frames))


def _decode(frames: AnyArray, data: memoryview) -> None:
    image.decode_into(data, frames[0], upright=True)
    frames[1:] = frames[0]


def id_of(item: Item) -> str:
    """Return the name of a file in the folder as text."""
    name = item.name or ""
    return name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")


class FolderSource(KeyedSource):
    """Pictures of a folder; see `frames.protocol.FrameSource`.

    Parameters
    ----------
    root : str or PathLike
        Path of the folder.

    Attributes
    ----------
    name : str
        Path of the folder.
    folder : PictureFolder
        Files and classes of the folder.

    Raises
    ------
    OSError
        The folder cannot be listed.
    ValueError
        Two file names are equal as text.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.folder = PictureFolder(root)
        self.name: str | None = self.folder.root
        self._items = {id_of(item): item for item in self.folder}
        self._keys = tuple(self._items)
        self._inventory = Inventory()
        self._inventory.add(*(f"file {quoted(name)}" for name in self.folder.others))
        if len(self._items) != len(self.folder):
            raise ValueError(
                f"folder {self.name!r}: two names differ only in bytes that are not UTF-8; rename "
                "one of them"
            )

    @property
    def left_out(self) -> tuple[str, ...]:
        """Contents of the folder beside the pictures that were read; see `inventory`."""
        return self._inventory.left_out

    def _ids(self) -> Sequence[str]:
        return self._keys

    def __contains__(self, key: object) -> bool:
        """Return whether the folder has this file."""
        return key in self._items

    def __getitem__(self, key: str) -> FileClip:
        """Return a clip, without reading the file.

        Raises
        ------
        NotFoundError
            The folder does not have this file.
        """
        if key not in self._items:
            raise NotFoundError(f"no picture {key!r:.80}").at(path=self.name)
        return FileClip(self._items[key], self._inventory)

    def close(self) -> None:
        """Do nothing: files are open only while they are read."""
