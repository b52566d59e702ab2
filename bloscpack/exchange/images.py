"""Copying a source to a folder of pictures, and comparing the two.

JPEG and PNG images are copied byte for byte; arrays become PNG, without loss. Files are named as by
extraction (`media.filename`). ``samples.json`` lists the clip, frame and metadata of each file.
"""

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from ..plugin import (
    ALL_THREADS,
    LISTS,
    AnyArray,
    Clip,
    ClipWriter,
    Conversion,
    CopyJob,
    ErrorsAt,
    FileNames,
    Folder,
    FrameSource,
    Listing,
    Tally,
    data_of,
    image,
    is_images,
    is_same,
    leave_out_of_clips,
    map_ordered,
    meta_of,
    quoted,
    resolve_nthreads,
    write_copy,
)

_SUFFIXES = {"jpeg": ".jpg", "png": ".png"}


def copy_to_pictures(source: FrameSource, job: CopyJob) -> Conversion:
    """Copy all frames of a source to a new folder of pictures."""
    leave_out_of_clips(job, source, keeps=lambda channels: channels != (1,))
    return write_copy("images", source, PictureWriter(source, job), job, is_folder=True)


class _Frame(NamedTuple):
    """A frame that is not read yet."""

    clip: Clip
    number: int
    read: Callable[[], bytes | AnyArray]

    @property
    def is_last(self) -> bool:
        return self.number == len(self.clip) - 1


class _File(NamedTuple):
    """Content of a file."""

    content: bytes
    suffix: str
    is_kept: bool
    """Whether the source had it as an image already."""


class PictureWriter(ClipWriter):
    """Writes the frames of a source to a folder of pictures."""

    def __init__(self, source: FrameSource, job: CopyJob) -> None:
        super().__init__(source, job)
        self._files: list[str] = []

    def write(self, path: str, tally: Tally) -> None:
        """Write all frames."""
        folder = Folder(path)
        names = FileNames(_SUFFIXES.values(), LISTS.values())
        nthreads = resolve_nthreads(self._job.nthreads, ALL_THREADS)
        with Listing(folder, "json") as lines:
            for frame, file in map_ordered(_encode, self._frames(), nthreads):
                clip = frame.clip
                meta = meta_of(clip)
                name = meta.get("name") if isinstance(meta.get("name"), str) else clip.id
                stored = name if len(clip) == 1 else f"{name}/{frame.number:06d}"
                called = names.add(stored, len(self._files), file.suffix)
                folder.write(called, file.content)
                self._files.append(called)
                tally.add_frames(1, is_image=file.is_kept)
                lines.add(
                    {"file": called, "clip": clip.id, "frame": frame.number}
                    | ({"meta": meta} if not frame.number else {})
                )
                if frame.is_last:
                    tally.advance()

    def _frames(self) -> Iterator[_Frame]:
        for id_ in self._source:
            clip = self._source[id_]
            self.check_turns(clip)
            if is_images(clip):
                for number, data in enumerate(data_of(clip)):
                    yield _Frame(clip, number, partial(bytes, data))
            else:
                for number in range(len(clip)):
                    yield _Frame(clip, number, partial(clip.read, number))

    def difference(self, path: str, tally: Tally) -> str | None:
        """Return a description of the first difference from the source, or None."""
        files = (os.path.join(path, *name.split("/")) for name in self._files)
        pairs = zip(self._frames(), files, strict=True)
        nthreads = resolve_nthreads(self._job.nthreads, ALL_THREADS)
        for frame, is_equal in map_ordered(_compared, pairs, nthreads):
            if not is_equal:
                return f"clip {frame.clip.id!r:.80}: frame {frame.number}"
            if frame.is_last:
                tally.advance()
        return None


def _compared(pair: tuple[_Frame, str]) -> tuple[_Frame, bool]:
    frame, path = pair
    expected = frame.read()
    with open(path, "rb") as stream:
        content = stream.read()
    with ErrorsAt(lambda: (f"clip {quoted(frame.clip.id)}: frame {frame.number}",)):
        if isinstance(expected, bytes):
            return frame, is_same(expected, content)
        return frame, is_same(image.decode(content), _squeezed(expected))


def _encode(frame: _Frame) -> tuple[_Frame, _File]:
    content = frame.read()
    if isinstance(content, bytes):
        return frame, _File(content, _SUFFIXES[image.inspect(content)[0].kind], is_kept=True)
    try:
        return frame, _File(image.encode_png(_squeezed(content)), _SUFFIXES["png"], is_kept=False)
    except ValueError as err:
        raise ValueError(f"clip {frame.clip.id!r:.80}: frame {frame.number}: {err}") from err


def _squeezed(pixels: AnyArray) -> AnyArray:
    """Return gray pixels without an axis of one channel, which PNG does not have."""
    return pixels[..., 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels
