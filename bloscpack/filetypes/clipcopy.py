"""Copying all clips of a source to a frame store, and what all copies of clips share.

A writer also describes the expected frames of each clip, so that source and copy can be compared
afterwards. It writes to a temporary path; the caller renames the result.
"""

import json
from collections.abc import Iterator
from typing import Any

from ..frames.protocol import Clip, FrameSource
from ..frames.store.framestore import FrameStore
from ..frames.store.openclip import arrays_of, images_of, is_images, meta_of
from ..types import AnyArray, FramePreset
from .copyjob import Conversion, CopyJob, Tally, write_copy
from .inventory import quoted
from .open import open_frames
from .table import FILETYPES


def copy_to_store(source: FrameSource, job: CopyJob) -> Conversion:
    """Copy all clips of a source to a new frame store."""
    return write_copy(
        "frames", source, StoreWriter(source, job.preset or "fast", job.nthreads), job
    )


class ClipWriter:
    """Base of writers whose copies have clips that are opened and compared."""

    lossless = True

    def __init__(self, source: FrameSource) -> None:
        self._source = source
        self.total = len(source)

    def write(self, path: str, tally: Tally) -> None:
        """Write all clips."""
        raise NotImplementedError

    def expected(self, clip: Clip) -> Iterator[AnyArray] | Iterator[list[bytes]]:
        """Yield the frames that the copy of a clip must have."""
        raise NotImplementedError

    def has_meta(self, clip: Clip, written: Clip) -> bool:
        """Return whether the copy of a clip has the right metadata."""
        raise NotImplementedError

    def difference(self, path: str, tally: Tally) -> str | None:
        """Return a description of the first difference from the source, or None."""
        with open_frames(path) as written:
            return self.difference_from(written, tally)

    def difference_from(self, written: FrameSource, tally: Tally) -> str | None:
        """Return a description of the first difference of an open copy, or None."""
        if list(written.keys()) != list(self._source.keys()):
            return "the ids of the clips"
        for id_ in self._source:
            what = self._difference_of_clip(self._source[id_], written[id_])
            if what is not None:
                return f"clip {id_!r:.80}: {what}"
            tally.add_clip()
        return None

    def _difference_of_clip(self, clip: Clip, copy: Clip) -> str | None:
        if not self.has_meta(clip, copy):
            return "the metadata"
        position = 0
        for frames in self.expected(clip):
            chosen = slice(position, position + len(frames))
            for k, same in enumerate(_same_frames(frames, copy, chosen)):
                if not same:
                    return f"the pixels of frame {position + k}"
            position += len(frames)
        return None if len(copy) == position else "the frames"


def _same_frames(frames: AnyArray | list[bytes], copy: Clip, chosen: slice) -> Iterator[bool]:
    """Yield for each frame whether the copy has an equal one."""
    if isinstance(frames, list):
        images = copy.read_images(chosen) or []
        yield from (one == two for one, two in zip(frames, images, strict=False))
        return
    copied = copy.read(chosen)
    for one, two in zip(frames, copied, strict=False):
        is_alike = one.shape == two.shape and one.dtype == two.dtype
        # Compared as bytes, as NaN is not equal to NaN.
        yield is_alike and one.tobytes() == two.tobytes()


class StoreWriter(ClipWriter):
    """Writes the clips of a source to a frame store."""

    def __init__(self, source: FrameSource, preset: FramePreset, nthreads: int | None) -> None:
        super().__init__(source)
        self._preset = preset
        self._nthreads = nthreads

    def write(self, path: str, tally: Tally) -> None:
        """Write all clips."""
        attrs = attrs_of(self._source)
        with FrameStore.create(
            path, preset=self._preset, attrs=attrs, nthreads=self._nthreads
        ) as store:
            for id_ in self._source:
                clip = self._source[id_]
                store._append_clip(id_, clip, meta_of(clip))
                tally.add_frames(len(clip), is_image=is_images(clip))
                tally.add_clip()

    def expected(self, clip: Clip) -> Iterator[AnyArray] | Iterator[list[bytes]]:
        """Yield the frames that the copy of a clip must have."""
        return images_of(clip) if is_images(clip) else arrays_of(clip)

    def has_meta(self, clip: Clip, written: Clip) -> bool:
        """Return whether the copy of a clip has the right metadata."""
        return json.dumps(meta_of(clip)) == json.dumps(written.meta)


def empty_clips(source: FrameSource) -> Iterator[str]:
    """Yield a text for each clip without frames, for types of files that hold frames alone."""
    for id_ in source:
        if not len(source[id_]):
            yield f"clip {quoted(id_)}, which has no frames"


def is_store(source: FrameSource) -> bool:
    """Return whether a source is a frame store."""
    return isinstance(source, FrameStore)


def attrs_of(source: FrameSource) -> dict[str, Any]:
    """Return the attributes of a source as a whole, for a frame store."""
    for filetype in FILETYPES:
        if filetype.attrs_of is not None:
            attrs = filetype.attrs_of(source)
            if attrs is not None:
                return attrs
    found: dict[str, Any] = getattr(source, "attrs", {})
    return found
