"""Adapters for images: in folders, in a list, and as the frames of clips.

With ``keep_jpegs`` JPEG files are stored unchanged instead of being decoded and encoded again, as
GulpIO2 always does. That is several times as fast, and loses no quality.
"""

import os
from collections.abc import Sequence
from typing import Any

from ...plugin import errors_at, probe
from ..utils import find_images_in_folder, resize_by_short_edge
from .baseadapter import (
    Item,
    LabelledAdapter,
    NumberedAdapter,
    Path,
    inside,
    refuse_duplicates,
    walk,
)
from .listfiles import read_csv, read_image_list

_EXTENSIONS = (".jpg", ".png")


def read_image(path: str, size: int, *, keep_jpegs: bool) -> Any:
    """Return the pixels of an image file, or with `keep_jpegs` the bytes of a JPEG file.

    ImageNotFound if the file is missing or not an image.
    """
    if keep_jpegs and size < 1:
        with open(path, "rb") as file:
            data = file.read()
        if data[:2] == b"\xff\xd8":
            with errors_at(path, whole=""):
                probe(data)
            return data
    return resize_by_short_edge(path, size)


class Custom20BNCsvJpegAdapter(NumberedAdapter):
    """Clips listed in a CSV file, with JPEG files as frames.

    Parameters
    ----------
    csv_file : str or PathLike
        Rows ``id;label``.
    folder : str or PathLike
        Contains ``<id>/*.jpg``; the frames are sorted by name.
    output_folder : str or PathLike
        Folder of ``label2idx.json``.
    shuffle : bool, optional
        Shuffle the items.
    frame_size : int, optional
        Pixels of the shorter edge; -1 keeps the size of frames.
    shm_dir_path : str or PathLike, optional
        Ignored.
    keep_jpegs : bool, optional
        Store JPEG files unchanged if they are not resized.

    Raises
    ------
    DuplicateIdException
        An id is repeated.
    FormatError
        A row has no label.
    """

    def __init__(
        self,
        csv_file: Path,
        folder: Path,
        output_folder: Path,
        shuffle: bool = False,
        frame_size: int = -1,
        shm_dir_path: Path = "/dev/shm",  # noqa: S108
        *,
        keep_jpegs: bool = False,
    ) -> None:
        self.folder = folder
        self.frame_size = int(frame_size)
        self.shm_dir_path = shm_dir_path
        self.keep_jpegs = keep_jpegs
        super().__init__(self.read_csv(csv_file), output_folder, "label", shuffle=shuffle)

    def read_csv(self, csv_file: Path) -> list[Item]:
        """Return the rows as dicts of ``id`` and ``label``."""
        return read_csv(csv_file)

    def _frames(self, meta: Item) -> Sequence[Any]:
        folder = inside(self.folder, meta["id"])
        paths = find_images_in_folder(folder, formats=["jpg"])
        if not paths:
            raise FileNotFoundError(f"{folder}: no .jpg files")
        return [read_image(path, self.frame_size, keep_jpegs=self.keep_jpegs) for path in paths]


class ImageListAdapter(LabelledAdapter):
    """Images named in a list.

    Parameters
    ----------
    input_file : str or PathLike
        Lines ``path,label``.
    output_folder : str or PathLike
        Folder of ``label2idx.json``.
    root_folder : str or PathLike, optional
        Folder that the paths are relative to and must stay in. By default paths are used as given.
    shuffle : bool, optional
        Shuffle the items.
    img_size : int, optional
        Pixels of the shorter edge; -1 keeps the size of images.
    keep_jpegs : bool, optional
        Store JPEG files unchanged if they are not resized.

    Raises
    ------
    DuplicateIdException
        Two images have the same id: ``label-`` and the file name.
    FormatError
        A line has no label.
    """

    def __init__(
        self,
        input_file: Path,
        output_folder: Path,
        root_folder: Path = "",
        shuffle: bool = False,
        img_size: int = -1,
        *,
        keep_jpegs: bool = False,
    ) -> None:
        self.input_file = input_file
        self.root_folder = self.folder = root_folder
        self.img_size = int(img_size)
        self.keep_jpegs = keep_jpegs
        data = self.parse_paths(input_file)
        refuse_duplicates([(entry["id"], entry["path"]) for entry in data])
        super().__init__(data, output_folder, shuffle=shuffle)

    @staticmethod
    def parse_paths(input_file: Path) -> list[Item]:
        """Return the lines as dicts of ``id``, ``label`` and ``path``."""
        return read_image_list(input_file)

    def _meta(self, meta: Item) -> Item:
        return {key: value for key, value in meta.items() if key != "path"}

    def _frames(self, meta: Item) -> Sequence[Any]:
        path = str(meta["path"])
        if os.fspath(self.root_folder):
            path = inside(self.root_folder, path)
        return [read_image(path, self.img_size, keep_jpegs=self.keep_jpegs)]


class FolderAdapter(LabelledAdapter):
    """Files in a folder tree, each labelled with the name of its folder."""

    file_extensions: Sequence[str]

    def parse_folder(self, folder: Path) -> list[Item]:
        """Return the files as dicts of ``id``, ``label`` and ``path``, the folder of the file."""
        return files_by_folder(folder, self.file_extensions)


class ImageFolderAdapter(FolderAdapter):
    """Images in a folder tree, each labelled with the name of its folder.

    Parameters
    ----------
    folder : str or PathLike
        Root of the tree; a trailing slash makes no difference.
    output_folder : str or PathLike
        Folder of ``label2idx.json``.
    file_extensions : sequence of str, optional
        Suffixes of image files.
    shuffle : bool, optional
        Shuffle the items.
    img_size : int, optional
        Pixels of the shorter edge; -1 keeps the size of images.
    keep_jpegs : bool, optional
        Store JPEG files unchanged if they are not resized.

    Raises
    ------
    DuplicateIdException
        Two images have the same id: ``<last folder>-<file name>``.
    """

    def __init__(
        self,
        folder: Path,
        output_folder: Path,
        file_extensions: Sequence[str] = _EXTENSIONS,
        shuffle: bool = False,
        img_size: int = -1,
        *,
        keep_jpegs: bool = False,
    ) -> None:
        self.file_extensions = file_extensions
        self.folder = folder
        self.img_size = int(img_size)
        self.keep_jpegs = keep_jpegs
        super().__init__(self.parse_folder(folder), output_folder, shuffle=shuffle)

    def _frames(self, meta: Item) -> Sequence[Any]:
        return [read_image(path_of(meta), self.img_size, keep_jpegs=self.keep_jpegs)]


def files_by_folder(folder: Path, extensions: Sequence[str]) -> list[Item]:
    """Return the files of a tree as dicts of ``id``, ``label`` and ``path``, in order of path."""
    paths = walk(folder, extensions)
    entries = []
    for path in paths:
        parent, name = os.path.split(path)
        label = parent.split("/")[-1]
        entries.append({"id": f"{label}-{name}", "label": label, "path": parent})
    refuse_duplicates([(str(e["id"]), path) for e, path in zip(entries, paths, strict=True)])
    return entries


def path_of(meta: Item) -> str:
    """Return the path of the file in an entry of `files_by_folder`."""
    return os.path.join(str(meta["path"]), str(meta["id"])[len(str(meta["label"])) + 1 :])
