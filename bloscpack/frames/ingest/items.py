"""What can be put into a frame store: one item becomes one clip.

An item is small and pickles; its frames are read where they are encoded, which may be in another
process. Images that are to be kept as they are come as bytes, everything else as arrays.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...exceptions import BloscpackError, FormatError, UnsupportedError
from ...format.filekind import IMAGE_SUFFIXES
from ...media import image
from ...media.video import read_video
from ...types import AnyArray
from ..protocol import Clip, FrameSource

# Images that are not read: a folder that has some is no clip without them.
OTHER_IMAGE_SUFFIXES = (".bmp", ".gif", ".jp2", ".tif", ".tiff", ".webp", ".avif", ".heic", ".jxl")

# No honest image file is larger; what is read is read whole.
_MAX_IMAGE_FILE_NBYTES = 1 << 30
_JPEG_DATA, _JPEG_END = b"\xff\xda", b"\xff\xd9"
_PNG_END = b"IEND"
# Frames of another source that are read at once: whole groups of those that refer to each other.
_BATCH_NFRAMES = 32
_NUMBER = re.compile(r"(\d+)")


class Way(NamedTuple):
    """How items are read.

    Attributes
    ----------
    keep : bool
        Take JPEG and PNG images as they are.
    check : bool
        Decode those to see whether they are whole.
    short_edge : int or None
        Pixels that the shorter edge of images and video frames is to have.
    keep_damaged : bool
        Take videos of which frames are damaged or missing.
    """

    keep: bool = True
    check: bool = False
    short_edge: int | None = None
    keep_damaged: bool = False

    @property
    def is_copy(self) -> bool:
        """Whether images are copied without a look at their pixels."""
        return self.keep and self.short_edge is None and not self.check


@dataclass(slots=True)
class Reading:
    """The frames of an item, while they are read.

    Attributes
    ----------
    frames : ndarray or iterator
        An array of shape (T, ...), or an iterator of arrays or of bytes of images.
    meta : dict
        What the frames say about themselves; complete when all have been taken.
    notes : list of str
        What a person should know; complete when all have been taken.
    """

    frames: AnyArray | Iterator[Any]
    meta: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Base of all kinds.

    Attributes
    ----------
    id : str
        The id of the clip.
    meta : mapping
        Its metadata, JSON values.
    """

    id: str
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """Where it comes from, for messages."""
        return ""

    def stays_here(self, way: Way) -> bool:
        """Return whether it is read in this process: it does not travel well, or is hardly work."""
        return False

    def read(self, way: Way) -> Reading:
        """Start reading the frames.

        Raises
        ------
        BloscpackError, OSError, ValueError, ImportError
            They cannot be read; the same while the frames are taken.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayItem(Item):
    """An array in memory, of shape (T, ...), or a sequence of frames: arrays or images as bytes."""

    frames: Any

    def stays_here(self, way: Way) -> bool:
        """Return True: it is here already."""
        return True

    def read(self, way: Way) -> Reading:
        """Return the frames; the way does not matter."""
        return Reading(self.frames if hasattr(self.frames, "__array__") else iter(self.frames))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipItem(Item):
    """The clip of this id of another source."""

    clips: FrameSource

    @property
    def source(self) -> str:
        """Where the other source is."""
        return self.clips.name or ""

    def stays_here(self, way: Way) -> bool:
        """Return True: sources may hold open files."""
        return True

    def read(self, way: Way) -> Reading:
        """Return the images as they are kept, if they are, or arrays."""
        clip = self.clips[self.id]
        if len(clip) and clip.read_images([0]) is not None:
            return Reading(_images(_images_of(clip), way), clip.meta)
        if not len(clip):
            return Reading(clip[:], clip.meta)
        return Reading(_scaled(_frames_of(clip), way), clip.meta)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayFile(Item):
    """A ``.npy`` file of an array of shape (T, ...)."""

    path: str

    @property
    def source(self) -> str:
        """The path."""
        return self.path

    def read(self, way: Way) -> Reading:
        """Map the file into memory, so that it takes none."""
        if not os.path.getsize(self.path):
            raise FormatError("an empty file")
        array = np.load(self.path, mmap_mode="r", allow_pickle=False)
        if not isinstance(array, np.ndarray):  # np.load reads archives as well
            array.close()
            raise FormatError("not a .npy file of one array")
        return Reading(array)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFiles(Item):
    """JPEG and PNG files that are the frames, in this order."""

    paths: tuple[str, ...]

    @property
    def source(self) -> str:
        """The path of the first."""
        return self.paths[0] if self.paths else ""

    def stays_here(self, way: Way) -> bool:
        """Return whether sending the content would take longer than reading it."""
        return way.is_copy

    def read(self, way: Way) -> Reading:
        """Read one file after the other."""
        return Reading(_images(((path, _content_of(path)) for path in self.paths), way))


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFolder(Item):
    """A folder whose JPEG and PNG files are the frames, in the order of their names.

    Attributes
    ----------
    root : str or None
        The folder that links must not lead out of.
    """

    path: str
    root: str | None = None

    @property
    def source(self) -> str:
        """The path."""
        return self.path

    def stays_here(self, way: Way) -> bool:
        """Return whether sending the content would take longer than reading it."""
        return way.is_copy

    def read(self, way: Way) -> Reading:
        """List the folder, and read one file after the other."""
        names, others = [], []
        with os.scandir(self.path) as entries:
            for entry in entries:
                suffix = suffix_of(entry.name)
                if entry.name.startswith("."):
                    continue
                if suffix in IMAGE_SUFFIXES:
                    if self.root is not None and entry.is_symlink():
                        check_inside(entry.path, self.root, os.path.realpath(self.root))
                    names.append(entry.name)
                elif suffix in OTHER_IMAGE_SUFFIXES:
                    others.append(entry.name)
        if others:
            raise UnsupportedError(f"{min(others)!r:.80}: only JPEG and PNG images are read")
        if not names:
            raise FormatError("no JPEG or PNG file in it")
        paths = (os.path.join(self.path, name) for name in sorted(names, key=natural_key))
        return Reading(_images(((path, _content_of(path)) for path in paths), way))


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoFile(Item):
    """A video.

    Attributes
    ----------
    frame_rate : float or None
        Frames per second to take; by default every frame once.
    """

    path: str
    frame_rate: float | None = None

    @property
    def source(self) -> str:
        """The path."""
        return self.path

    def read(self, way: Way) -> Reading:
        """Decode one frame after the other, upright."""
        reading = Reading(iter(()))
        reading.frames = self._frames(way, reading)
        return reading

    def _frames(self, way: Way, reading: Reading) -> Iterator[AnyArray]:
        count = 0
        with read_video(self.path, frame_rate=self.frame_rate) as video:
            for frame in _scaled(video, way):
                yield frame
                count += 1
        report = video.report
        if not report.ok and not way.keep_damaged:
            raise FormatError(_relative(report.describe(), self.path))
        if not count:
            raise FormatError("no frame in it")
        rate = self.frame_rate or report.rate
        if rate:
            reading.meta["frame_rate"] = rate
        if report.rotation or report.flipped:
            flipped = " and mirrored" if report.flipped else ""
            reading.notes.append(f"turned by {report.rotation} degrees{flipped}")
        if not report.ok:
            reading.notes.append(_relative(report.describe(), self.path))
            reading.meta["damaged"] = reading.notes[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class BadItem(Item):
    """Something that was listed and cannot be read."""

    name: str
    reason: str

    @property
    def source(self) -> str:
        """What it was listed as."""
        return self.name

    def stays_here(self, way: Way) -> bool:
        """Return True: there is nothing to do."""
        return True

    def read(self, way: Way) -> Reading:
        """Raise what is wrong."""
        raise FormatError(self.reason)


def suffix_of(name: str) -> str:
    """Return the suffix of the name of a file in lower case, with its dot."""
    return os.path.splitext(name)[1].lower()


def natural_key(name: str) -> tuple[Any, ...]:
    """Return a key that sorts names as people do: ``frame2`` before ``frame10``."""
    key: list[Any] = []
    for position, part in enumerate(_NUMBER.split(name)):
        if position % 2:  # digits, however many: they never become an int
            digits = part.lstrip("0")
            key.append((len(digits), digits))
        else:
            key.append(part)
    return tuple(key), name


def check_inside(path: str, root: str, folder: str) -> None:
    """Raise unless `path`, its links followed, lies in `root`, whose real path is `folder`.

    Raises
    ------
    FormatError
        It leads elsewhere.
    """
    if os.path.commonpath([folder, os.path.realpath(path)]) != folder:
        raise FormatError(f"{path!r:.200} leads out of {root!r:.200}")


def _content_of(path: str) -> bytes:
    with open(path, "rb") as file:
        nbytes = os.fstat(file.fileno()).st_size
        if nbytes > _MAX_IMAGE_FILE_NBYTES:
            raise FormatError(f"{nbytes} bytes are more than an image file has")
        return file.read()


def _relative(text: str, path: str) -> str:
    """Return a message without the path in front: whoever shows it names the item."""
    return text.removeprefix(f"{path}: ")


def _images(named: Iterable[tuple[str, bytes]], way: Way) -> Iterator[Any]:
    """Yield images as they are, or decoded, by what is wanted."""
    for name, data in named:
        try:
            if way.keep and way.short_edge is None:
                _check_image(data, way)
                yield data
            else:
                yield _resized(image.decode(data), way)
        except BloscpackError as err:
            raise _located(err, os.path.basename(name)) from err


def _located(err: BloscpackError, name: str) -> BloscpackError:
    kind = UnsupportedError if isinstance(err, UnsupportedError) else FormatError
    return kind(f"{name}: {err}")


def _check_image(data: bytes, way: Way) -> None:
    """Raise unless an image is one, and seems to be whole."""
    kind = image.probe(data).kind
    if way.check:
        image.decode(data)
    # What is cut has no end, but that of a small picture in its header.
    elif kind == "png" and _PNG_END not in data[-64:] and data.rfind(_PNG_END) < 0:
        raise FormatError("PNG: it is cut off")
    elif kind == "jpeg" and not _has_end(data):
        raise FormatError("JPEG: it is cut off")


def _has_end(data: bytes) -> bool:
    """Return whether a JPEG has an end behind its last data; a camera may add things after it."""
    return data.endswith(_JPEG_END) or data.rfind(_JPEG_END) > data.rfind(_JPEG_DATA)


def _images_of(clip: Clip) -> Iterator[tuple[str, bytes]]:
    for start in range(0, len(clip), _BATCH_NFRAMES):
        images = clip.read_images(slice(start, start + _BATCH_NFRAMES)) or []
        for index, data in enumerate(images, start):
            yield f"frame {index}", data


def _frames_of(clip: Clip) -> Iterator[AnyArray]:
    for start in range(0, len(clip), _BATCH_NFRAMES):
        yield from clip[start : start + _BATCH_NFRAMES]


def _scaled(frames: Iterable[AnyArray], way: Way) -> Iterator[AnyArray]:
    for frame in frames:
        yield _resized(frame, way)


def _resized(frame: AnyArray, way: Way) -> AnyArray:
    return frame if way.short_edge is None else image.resize(frame, way.short_edge)
