"""Items to put into a store: from a folder, from a list, or from memory.

The order depends on names alone. A link that leads out of its folder yields a `BadItem` that says
so, unless `outside` is given. Names that begin with a dot are skipped. Other files of a folder
yield an `OtherFile` each, at the end, which an ingest reports.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ..exceptions import FormatError
from ..format.filekind import ARRAY_SUFFIXES, IMAGE_SUFFIXES, VIDEO_SUFFIXES, is_gulp
from .ingest.itemlist import TABLE_SUFFIXES, listed
from .ingest.items import (
    OTHER_IMAGE_SUFFIXES,
    ArrayFile,
    ArrayItem,
    BadItem,
    ClipItem,
    ImageFiles,
    ImageFolder,
    Item,
    OtherFile,
    VideoFile,
    check_inside,
    natural_key,
    suffix_of,
)
from .protocol import FrameSource
from .store.openclip import is_clip

__all__ = ["arrays", "clips", "folders", "images", "in_memory", "kind_of", "listed", "videos"]

Path = str | os.PathLike[str]

# Pictures that a store cannot hold are listed, too, so that an ingest reports them as skipped.
_PICTURES = (*IMAGE_SUFFIXES, *OTHER_IMAGE_SUFFIXES)


def in_memory(entries: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> Iterator[Item]:
    """Yield an item per entry: an id, and an array of frames, a sequence of them, or a clip."""
    for id_, frames in entries.items() if isinstance(entries, Mapping) else entries:
        if is_clip(frames):
            yield ClipItem(id=id_, clips={id_: frames})
        else:
            yield ArrayItem(id=id_, frames=frames)


def clips(source: FrameSource) -> Iterator[Item]:
    """Yield an item for each clip of another source, including its metadata."""
    for id_ in source.keys():  # noqa: SIM118 - keys() guarantees the order
        yield ClipItem(id=id_, clips=source)


def arrays(root: Path, *, outside: bool = False) -> Iterator[Item]:
    """Yield an item for each ``.npy`` file in a folder and its subfolders, or for one file.

    The id is the path relative to `root`, without suffix and with ``/``; for a file, its name.
    """
    return _files(root, ARRAY_SUFFIXES, lambda id_, path: ArrayFile(id=id_, path=path), outside)


def images(root: Path, *, outside: bool = False) -> Iterator[Item]:
    """Yield an item for each picture: a clip of one frame, with ids as in `arrays`.

    Only JPEG and PNG files can be stored; an ingest skips others and reports them.
    """
    return _files(root, _PICTURES, lambda id_, path: ImageFiles(id=id_, paths=(path,)), outside)


def videos(root: Path, *, frame_rate: float | None = None, outside: bool = False) -> Iterator[Item]:
    """Yield an item for each video, with ids as in `arrays`.

    With `frame_rate`, frames are dropped or repeated to give that many frames per second.
    """

    def item(id_: str, path: str) -> Item:
        return VideoFile(id=id_, path=path, frame_rate=frame_rate)

    return _files(root, VIDEO_SUFFIXES, item, outside)


def folders(root: Path, *, outside: bool = False) -> Iterator[Item]:
    """Yield an item for each folder that contains pictures, which are its frames.

    Only folders of JPEG and PNG files can be stored; an ingest skips others and reports them.
    The id is the path relative to `root`, with ``/``; for `root` itself, its name.
    """
    top = os.fspath(root)
    os.stat(top)  # raises at once if it does not exist
    return _folders(top, outside)


def _folders(top: str, outside: bool) -> Iterator[Item]:
    others: list[OtherFile] = []
    for folder in _walk(top, _PICTURES, outside=outside):
        yield from folder.bad
        if folder.names:  # reading it reports other files
            id_ = _id_of(folder.path, top) or _name_of(top)
            yield ImageFolder(id=id_, path=folder.path, root=None if outside else top)
        else:
            others += folder.others
    yield from others


KINDS = ("arrays", "images", "folders", "videos", "list", "gulp")


def kind_of(path: Path) -> str:
    """Guess which of `KINDS` a file or a folder is.

    A folder of images is taken for the frames of one clip ("folders").

    Raises
    ------
    ValueError
        It contains nothing that could be ingested.
    OSError
        It cannot be read.
    """
    top = os.fspath(path)
    by_suffix = dict.fromkeys(ARRAY_SUFFIXES, "arrays") | dict.fromkeys(VIDEO_SUFFIXES, "videos")
    if not os.path.isdir(top):
        os.stat(top)  # raises if it does not exist
        by_suffix |= dict.fromkeys(IMAGE_SUFFIXES, "images") | dict.fromkeys(TABLE_SUFFIXES, "list")
        names = [os.path.basename(top)]
    else:
        if is_gulp(os.listdir(top)):
            return "gulp"
        by_suffix |= dict.fromkeys(IMAGE_SUFFIXES, "folders")
        walk = _walk(top, tuple(by_suffix), outside=False)
        names = next((folder.names for folder in walk if folder.names), [])
    for name in names:
        if kind := by_suffix.get(suffix_of(name)):
            return kind
    raise ValueError(f"{top!r:.200}: nothing to ingest: no images, videos, arrays or lists")


def _files(
    root: Path, suffixes: tuple[str, ...], make: Callable[[str, str], Item], outside: bool
) -> Iterator[Item]:
    top = os.fspath(root)
    os.stat(top)  # raises at once if it does not exist
    if not os.path.isdir(top):
        return iter([make(os.path.splitext(_name_of(top))[0], top)])
    return _files_in(top, suffixes, make, outside)


def _files_in(
    top: str, suffixes: tuple[str, ...], make: Callable[[str, str], Item], outside: bool
) -> Iterator[Item]:
    others: list[OtherFile] = []
    for folder in _walk(top, suffixes, outside=outside):
        yield from folder.bad
        others += folder.others
        for name in folder.names:
            path = os.path.join(folder.path, name)
            yield make(os.path.splitext(_id_of(path, top))[0], path)
    yield from others


class _Folder(NamedTuple):
    """Listed folder."""

    path: str
    names: list[str]  # of files with one of the suffixes
    others: list[OtherFile]
    bad: list[BadItem]


def _walk(top: str, suffixes: tuple[str, ...], *, outside: bool) -> Iterator[_Folder]:
    """Yield each folder before its subfolders, with its file names of the given suffixes."""
    os.stat(top)  # raises if it does not exist
    todo: list[tuple[str, tuple[str, ...]]] = [(top, (os.path.realpath(top),))]
    while todo:
        folder, above = todo.pop()
        names, others, folders, bad = [], [], [], []
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: natural_key(entry.name))
        except OSError as err:
            reason = f"the folder cannot be listed: {err.strerror}"
            yield _Folder(folder, [], [], [_bad(folder, top, reason)])
            continue
        for entry in found:
            if entry.name.startswith("."):
                continue
            try:
                is_folder = entry.is_dir()
                if not is_folder and suffix_of(entry.name) not in suffixes:
                    others.append(OtherFile(id=_id_of(entry.path, top), path=entry.path))
                    continue
                reason = _refusal(entry, top, above, outside) if entry.is_symlink() else ""
            except OSError as err:  # a link that points to itself
                is_folder, reason = False, str(err.strerror)
            if reason:
                bad.append(_bad(entry.path, top, reason))
            elif is_folder:
                folders.append((entry.path, (*above, os.path.realpath(entry.path))))
            else:
                names.append(entry.name)
        yield _Folder(folder, names, others, bad)
        todo += reversed(folders)


def _refusal(entry: os.DirEntry[str], top: str, above: tuple[str, ...], outside: bool) -> str:
    """Return why a link is not followed, or ""; `above` are the real paths of its parents."""
    if entry.is_dir():
        if not outside:
            return "a link to a folder, which is followed only if that is allowed (outside)"
        return "a link to one of its parent folders" * (os.path.realpath(entry.path) in above)
    if not outside:
        try:
            check_inside(entry.path, top, above[0])
        except FormatError as err:
            return str(err)
    return ""


def _bad(path: str, top: str, reason: str) -> BadItem:
    return BadItem(id=_id_of(path, top), name=path, reason=reason)


def _id_of(path: str, top: str) -> str:
    relative = os.path.relpath(path, top)
    return "" if relative == os.curdir else relative.replace(os.sep, "/")


def _name_of(path: str) -> str:
    return os.path.basename(os.path.abspath(path))
