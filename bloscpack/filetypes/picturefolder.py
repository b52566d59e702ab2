"""Images in files as clips, and a folder of pictures as a source: each file a clip of one frame.

Files of a folder, their order and their classes are those of `media.pictureitems.PictureFolder`.
JPEG and PNG can be read; reading any other file raises an error.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from ..exceptions import NotFoundError
from ..frames.indexing import IndexedClip
from ..frames.protocol import ClipMapping, FrameSelection, frame_indices, read_clip
from ..media import image
from ..media.pictureitems import Item, PictureFolder
from ..storage.batch import Piece
from ..storage.memory import MemorySource
from ..storage.protocol import ErrorsAt, errors_at
from ..types import AnyArray, IntArray
from .inventory import Inventory, quoted


class ImageClip(IndexedClip):
    """Images as a clip; see `frames.protocol.Clip`.

    Parameters
    ----------
    id_ : str
        Its id.
    count : int
        Number of frames.
    read : callable
        Takes the number of a frame, and returns the bytes of its image.
    meta : dict
        Metadata.
    name : str or None
        The file, for messages.
    inventory : Inventory
        Gets what is found in the images beside the frames.
    """

    is_raw = is_upright = True
    decode_cost = 8.0  # of JPEG, as in `frames/store/clip.py`

    def __init__(
        self,
        id_: str,
        count: int,
        read: Callable[[int], bytes],
        meta: dict[str, Any],
        name: str | None,
        inventory: Inventory,
    ) -> None:
        self.id = id_
        self.meta = meta
        self._count = count
        self._read = read
        self._name = name
        self._inventory = inventory
        self._first: image.ImageInfo | None = None
        self._own = Inventory()

    @property
    def left_out(self) -> tuple[str, ...]:
        """Further contents of the images that were read, as short texts."""
        return self._own.left_out

    def _info(self) -> image.ImageInfo:
        if self._first is None:
            with errors_at(self._name, whole=""):
                self._first = image.probe(self._read(0), upright=True)
        return self._first

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of frames, and the shape of the first."""
        return (len(self), *self._info().shape) if len(self) else (0,)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the pixels."""
        return self._info().dtype if len(self) else np.dtype("u1")

    def __len__(self) -> int:
        """Return the number of frames."""
        return self._count

    def read(self, selection: FrameSelection = None, *, out: AnyArray | None = None) -> AnyArray:
        """Return frames in one array; see `frames.protocol.Clip`."""
        with errors_at(self._name, whole=""):
            return read_clip(self, selection, out=out, nthreads=1)

    def read_images(self, selection: FrameSelection = None) -> list[bytes]:
        """Return the bytes of images."""
        found = [self._read(int(each)) for each in frame_indices(selection, len(self)).indices]
        with ErrorsAt(lambda: (f"clip {quoted(self.id)}", self._name, "")):
            for data in found:
                _, more = image.inspect(data)
                for inventory in (self._own, self._inventory) if more else ():
                    inventory.add(f"{quoted(self.id)}: {more}")
        return found

    def frame_shape(self, indices: IntArray) -> tuple[int, ...]:
        """Return the shape that selected frames must have: that of the first of them."""
        if not len(indices):
            return self.shape[1:]
        return image.probe(self._read(int(indices[0])), upright=True).shape

    def pieces(self, indices: IntArray, frames: AnyArray) -> Iterator[Piece]:
        """Return the reads that fill each of `frames`."""
        for number, frame in zip(indices, frames, strict=True):
            data = self._read(int(number))
            yield Piece(MemorySource(data), 0, len(data), partial(_decode, frame))


def _decode(frame: AnyArray, data: memoryview) -> None:
    image.decode_into(data, frame, upright=True)


def id_of(item: Item) -> str:
    """Return the name of a file in the folder as text."""
    name = item.name or ""
    return name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")


class FolderSource(ClipMapping[ImageClip]):
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
        self._inventory.add(
            *(f"file {quoted(name)}" for name in self.folder.others),
            *(f"folder {quoted(name)}, which has no pictures" for name in self.folder.empty),
            *(
                f"bytes of the name of {quoted(id_)}, which is not text"
                for id_, item in self._items.items()
                if isinstance(item.name, bytes) and id_.encode() != item.name
            ),
        )
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

    def __getitem__(self, key: str) -> ImageClip:
        """Return a clip, without reading the file.

        Raises
        ------
        NotFoundError
            The folder does not have this file.
        """
        if key not in self._items:
            raise NotFoundError(f"no picture {key!r:.80}").at(path=self.name)
        item = self._items[key]
        meta = {"name": key, "target": -1 if item.target is None else item.target}
        path = Path(item.picture)
        read = cache(lambda _: path.read_bytes())  # for the shape and for the frame
        return ImageClip(key, 1, read, meta, item.picture, self._inventory)

    def close(self) -> None:
        """Do nothing: files are open only while they are read."""
