"""Items that can be put into a frame store; each becomes one clip.

An item is small and pickles. Its frames are read where they are encoded, possibly in another
process. Images that are stored unchanged are passed as bytes, everything else as arrays.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...display.contactsheet import pictured
from ...display.framerate import RATE_KEY
from ...exceptions import BloscpackError, CodecError, FormatError, UnsupportedError
from ...format.filekind import IMAGE_SUFFIXES
from ...media import image
from ...media.pictureitems import lost_by_decoding
from ...media.video import read_video
from ...types import AnyArray
from ..protocol import Clip, FrameSource
from ..store.frameencoding import IMAGE_BYTES, NOT_FRAMES
from ..store.openclip import frames_of, is_images, meta_of

# Images that cannot be read: a folder with one of these would be an incomplete clip.
OTHER_IMAGE_SUFFIXES = (".bmp", ".gif", ".jp2", ".tif", ".tiff", ".webp", ".avif", ".heic", ".jxl")

# Larger than any real image file; files are read whole.
_MAX_IMAGE_FILE_NBYTES = 1 << 30
_NUMBER = re.compile(r"(\d+)")


class ReadOptions(NamedTuple):
    """Options for reading items."""

    keep: bool = True  # return JPEG and PNG images unchanged
    keep_video: bool = True  # copy the packets of clips of video
    check: bool = False  # decode unchanged images, to find damaged ones
    # Length in pixels of the shorter edge of images and video frames after resizing.
    short_edge: int | None = None
    keep_damaged: bool = False  # accept videos with damaged or missing frames
    # What becomes of video files: "copy" keeps their packets, "recode" encodes their frames; None
    # decodes them to frames.
    video: str | None = None
    max_gop: int = 32  # for "copy", largest number of frames of a group
    is_picture: bool = False  # whether frames become pictures, whose first channel is red

    @property
    def is_copy(self) -> bool:
        """Whether images are copied without decoding them."""
        return self.keep and self.short_edge is None and not self.check


@dataclass(slots=True)
class Reading:
    """Frames of an item that is being read."""

    # An array of shape (T, ...), or an iterator of arrays or of bytes of images.
    frames: AnyArray | Iterator[Any]
    # Metadata found while reading; complete when all frames have been taken.
    meta: dict[str, Any] = field(default_factory=dict)
    # Notes for the user; complete when all frames have been taken.
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Base class of all items."""

    id: str  # id of the clip
    meta: Mapping[str, Any] = field(default_factory=dict)  # metadata of the clip, as JSON values

    @property
    def source(self) -> str:
        """Origin of the item, for messages."""
        return ""

    def stays_here(self, options: ReadOptions) -> bool:
        """Return whether to read it in this process: it is slow to pickle, or cheap to read."""
        return False

    def read(self, options: ReadOptions) -> Reading:
        """Start reading the frames; iterating over them raises the same errors."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayItem(Item):
    """An array in memory, of shape (T, ...), or a sequence of frames: arrays or images as bytes."""

    frames: Any

    def stays_here(self, options: ReadOptions) -> bool:
        """Return True: the array is in this process."""
        return True

    def read(self, options: ReadOptions) -> Reading:
        """Return the frames; the options apply to images."""
        frames = self.frames
        # An encoder refuses text and bytes, whose items would be taken for frames.
        if hasattr(frames, "__array__") or isinstance(frames, NOT_FRAMES):
            return Reading(frames, meta_of(frames))
        notes: list[str] = []
        return Reading(_frames_or_images(frames, options, notes), notes=notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipItem(Item):
    """The clip with this id in another source, or in a mapping of clips."""

    clips: FrameSource | Mapping[str, Clip]

    @property
    def source(self) -> str:
        """Name of the other source."""
        return getattr(self.clips, "name", None) or ""

    def stays_here(self, options: ReadOptions) -> bool:
        """Return True: sources may hold open files."""
        return True

    def read(self, options: ReadOptions) -> Reading:
        """Return the images unchanged if the source stores images, else arrays."""
        clip = self.clips[self.id]
        clip = pictured(clip) if options.is_picture else clip
        notes = [f"left out: {text}" for text in clip.left_out]
        frames = frames_of(clip, keep=True)
        if len(clip) and is_images(clip):
            named = ((f"frame {index}", data) for index, data in enumerate(frames))
            images = _images(named, options, notes, is_upright=clip.is_upright)
            return Reading(images, meta_of(clip), notes)
        return Reading(_scaled(frames, options) if len(clip) else frames, meta_of(clip), notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathItem(Item):
    """A file or folder that becomes a clip."""

    path: str

    @property
    def source(self) -> str:
        """The path."""
        return self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayFile(PathItem):
    """A ``.npy`` file of an array of shape (T, ...)."""

    def read(self, options: ReadOptions) -> Reading:
        """Map the file into memory instead of reading it."""
        if not os.path.getsize(self.path):
            raise FormatError("the file is empty")
        array = np.load(self.path, mmap_mode="r", allow_pickle=False)
        if not isinstance(array, np.ndarray):  # np.load also reads archives
            array.close()
            raise FormatError("not a .npy file of one array")
        rest = os.path.getsize(self.path) - getattr(array, "offset", 0) - array.nbytes
        return Reading(array, notes=[f"left out: {rest} bytes after the array"] * (rest > 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFiles(Item):
    """JPEG and PNG files that are the frames, in this order."""

    paths: tuple[str, ...]

    @property
    def source(self) -> str:
        """The path of the first."""
        return self.paths[0] if self.paths else ""

    def stays_here(self, options: ReadOptions) -> bool:
        """Return whether pickling the content would take longer than reading it."""
        return options.is_copy

    def read(self, options: ReadOptions) -> Reading:
        """Read one file after the other."""
        notes: list[str] = []
        named = ((path, _content_of(path)) for path in self.paths)
        return Reading(_images(named, options, notes), notes=notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFolder(PathItem):
    """A folder whose JPEG and PNG files are the frames, in the order of their names."""

    root: str | None = None  # the folder that links must not lead out of; None allows any link

    def stays_here(self, options: ReadOptions) -> bool:
        """Return whether pickling the content would take longer than reading it."""
        return options.is_copy

    def read(self, options: ReadOptions) -> Reading:
        """List the folder, and read one file after the other."""
        names, others = [], []
        notes: list[str] = []
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
                elif not entry.is_dir():
                    notes.append(f"left out: file {entry.name!r:.80}")
        if others:
            raise UnsupportedError(f"{min(others)!r:.80}: only JPEG and PNG images are read")
        if not names:
            raise FormatError("the folder has no JPEG or PNG file")
        paths = (os.path.join(self.path, name) for name in sorted(names, key=natural_key))
        named = ((path, _content_of(path)) for path in paths)
        notes.sort()  # in place, as reading the images adds more
        return Reading(_images(named, options, notes), notes=notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoFile(PathItem):
    """A video."""

    frame_rate: float | None = None  # frames per second to read; by default every frame once

    def read(self, options: ReadOptions) -> Reading:
        """Decode the frames one by one, upright."""
        reading = Reading(iter(()))
        reading.frames = self._frames(options, reading)
        return reading

    def _frames(self, options: ReadOptions, reading: Reading) -> Iterator[AnyArray]:
        count = 0
        with read_video(self.path, frame_rate=self.frame_rate) as video:
            report = video.report
            rate = self.frame_rate or report.rate
            if rate:
                reading.meta[RATE_KEY] = rate
            for frame in _scaled(video, options):
                yield frame
                count += 1
        if not report.ok and not options.keep_damaged:
            raise FormatError(_relative(report.describe(), self.path))
        if not count:
            raise FormatError("the video has no frame")
        if report.rotation or report.flipped:
            flipped = " and mirrored" if report.flipped else ""
            reading.notes.append(f"turned by {report.rotation} degrees{flipped}")
        reading.notes += [f"left out: {text}" for text in video.content.left_out]
        if not report.ok:
            reading.notes.append(_relative(report.describe(), self.path))
            reading.meta["damaged"] = reading.notes[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class BadItem(Item):
    """An entry that was listed but cannot be read."""

    name: str
    reason: str

    @property
    def source(self) -> str:
        """Name of the entry in the listing."""
        return self.name

    def stays_here(self, options: ReadOptions) -> bool:
        """Return True: there is nothing to do."""
        return True

    def read(self, options: ReadOptions) -> Reading:
        """Raise the reason as an error."""
        raise FormatError(self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherFile(PathItem):
    """A file in a folder that is of another kind than those that were asked for.

    An ingest reports that it was left out, unless another item reads it.
    """

    def read(self, options: ReadOptions) -> Reading:
        """Raise an error: an ingest does not read it."""
        raise FormatError("a file of another kind than the others of its folder")


def suffix_of(name: str) -> str:
    """Return the suffix of a file name in lower case, with its dot."""
    return os.path.splitext(name)[1].lower()


def natural_key(name: str) -> tuple[Any, ...]:
    """Return a sort key for names that puts ``frame2`` before ``frame10``."""
    key: list[Any] = []
    for position, part in enumerate(_NUMBER.split(name)):
        if position % 2:  # compared as text by length, so digits may be of any number
            digits = part.lstrip("0")
            key.append((len(digits), digits))
        else:
            key.append(part)
    return tuple(key), name


def check_inside(path: str, root: str, folder: str) -> None:
    """Raise unless `path`, with links resolved, is in `root`, whose real path is `folder`."""
    if os.path.commonpath([folder, os.path.realpath(path)]) != folder:
        raise FormatError(f"{path!r:.200} leads out of {root!r:.200}")


def _content_of(path: str) -> bytes:
    with open(path, "rb") as file:
        nbytes = os.fstat(file.fileno()).st_size
        if nbytes > _MAX_IMAGE_FILE_NBYTES:
            raise FormatError(f"the file has {nbytes} bytes, more than any image file")
        return file.read()


def _relative(text: str, path: str) -> str:
    # The caller names the item.
    return text.removeprefix(f"{path}: ")


def _images(
    named: Iterable[tuple[str, bytes]],
    options: ReadOptions,
    notes: list[str],
    *,
    is_upright: bool = True,
) -> Iterator[Any]:
    """Yield images unchanged or decoded, depending on the options.

    Notes are added on what decoding loses, and on images that the source does not turn upright.
    """
    for name, data in named:
        try:
            found: list[str] = []
            if not is_upright and image.probe(data, upright=True).turn != image.UPRIGHT:
                found.append("images are turned upright by their EXIF data, not as in the source")
            if options.keep and options.short_edge is None:
                inspected = image.Inspected(data)
                if options.check:
                    image.decode(data)
                yield inspected
            else:
                found += [f"left out: {text}" for text in lost_by_decoding(data)]
                yield _resized(image.decode(data, upright=True), options)
            notes += [text for text in found if text not in notes]
        except BloscpackError as err:
            place = os.path.basename(name)
            if isinstance(err, CodecError):
                raise FormatError(str(err)).at(place) from err
            err.at(place)
            raise


def _frames_or_images(
    frames: Iterable[Any], options: ReadOptions, notes: list[str]
) -> Iterator[Any]:
    for number, frame in enumerate(frames):
        if isinstance(frame, IMAGE_BYTES):
            yield from _images([(f"frame {number}", bytes(frame))], options, notes)
        else:
            yield frame


def _scaled(frames: Iterable[AnyArray], options: ReadOptions) -> Iterator[AnyArray]:
    for frame in frames:
        yield _resized(frame, options)


def _resized(frame: AnyArray, options: ReadOptions) -> AnyArray:
    return frame if options.short_edge is None else image.resize(frame, options.short_edge)
