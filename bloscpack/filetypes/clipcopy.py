"""Copying all clips of a source to a frame store, and what all copies of clips share.

A writer also describes the expected frames of each clip, so that source and copy can be compared
afterwards. It writes to a temporary path; the caller renames the result.
"""

import json
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import Any

from ..exceptions import BloscpackError
from ..frames.protocol import Clip, FrameSource
from ..frames.store.framestore import FrameStore
from ..frames.store.openclip import arrays_of, as_video, data_of, images_of, is_images, meta_of
from ..media import image
from ..media.pictureitems import lost_by_decoding
from ..parallel.threads import ALL_THREADS, map_ordered, resolve_nthreads
from ..types import AnyArray
from .copyjob import Conversion, CopyJob, Tally, write_copy
from .inventory import attributes, quoted
from .open import open_frames


def copy_to_store(source: FrameSource, job: CopyJob) -> Conversion:
    """Copy all clips of a source to a new frame store."""
    return write_copy("frames", source, StoreWriter(source, job), job)


class ClipWriter:
    """Base of writers whose copies have clips that are opened and compared."""

    # Whether the frames of a copy are images turned by their EXIF data.
    is_upright = True

    def __init__(self, source: FrameSource, job: CopyJob) -> None:
        self._source = source
        self._job = job
        self.lossless = True
        self.total = len(source)

    def write(self, path: str, tally: Tally) -> None:
        """Write all clips."""
        raise NotImplementedError

    def check_turns(self, clip: Clip) -> None:
        """Note a clip of images that its own reader and that of the copy turn differently."""
        if clip.is_upright == self.is_upright or not is_images(clip):
            return
        with _named(clip, self._source.name):
            turns = (image.probe(data, upright=True).turn for data in data_of(clip))
            is_turned = any(turn != image.UPRIGHT for turn in turns)
        if is_turned:
            self.lossless = False
            what = "turns upright" if self.is_upright else "does not turn upright"
            self._job.leave_out(
                f"orientation of clip {quoted(clip.id)}, whose images the reader of the copy {what}"
            )

    def expected(self, clip: Clip) -> Iterator[AnyArray] | Iterator[list[bytes]]:
        """Yield the frames that the copy of a clip must have."""
        return images_of(clip) if is_images(clip) else arrays_of(clip)

    def has_meta(self, clip: Clip, written: Clip) -> bool:
        """Return whether the copy of a clip has the right metadata."""
        return json.dumps(meta_of(clip)) == json.dumps(meta_of(written))

    def difference(self, path: str, tally: Tally) -> str | None:
        """Return a description of the first difference from the source, or None."""
        with open_frames(path) as written:
            return self.difference_from(written, tally)

    def difference_from(self, written: FrameSource, tally: Tally) -> str | None:
        """Return a description of the first difference of an open copy, or None."""
        if list(written.keys()) != list(self._source.keys()):
            return "the ids of the clips"
        for id_ in self._source:
            clip = self._source[id_]
            with _named(clip, self._source.name):
                what = self._difference_of_clip(clip, written[id_])
            if what is not None:
                return f"clip {id_!r:.80}: {what}"
            tally.advance()
        return None

    def _difference_of_clip(self, clip: Clip, copy: Clip) -> str | None:
        if not self.has_meta(clip, copy):
            return "the metadata"
        position = 0
        nthreads = resolve_nthreads(self._job.nthreads, ALL_THREADS)
        for frames in self.expected(clip):
            chosen = slice(position, position + len(frames))
            is_array = not isinstance(frames, list)
            copied = copy.read(chosen) if is_array else copy.read_images(chosen) or []
            pairs = zip(frames, copied, strict=False)
            for k, is_equal in enumerate(map_ordered(_compared, pairs, nthreads), position):
                if isinstance(is_equal, BloscpackError):
                    raise is_equal.at(f"frame {k}")
                if not is_equal:
                    return f"the pixels of frame {k}"
            position += len(frames)
        return None if len(copy) == position else "the frames"


def _compared(pair: tuple[Any, Any]) -> bool | BloscpackError:
    """Return whether frames are equal, or the error about an image, which has no number here."""
    try:
        return is_same(*pair)
    except BloscpackError as err:
        return err


def is_same(one: Any, two: Any) -> bool:
    """Return whether two frames, arrays or images as bytes, have the same values, bit for bit.

    CodecError if they are an image that cannot be read without damage.
    """
    if isinstance(one, bytes):
        image.check(one)
        return bool(one == two)
    order = one.dtype.newbyteorder("<")
    if one.shape != two.shape or order != two.dtype.newbyteorder("<"):
        return False
    # Compared as bytes, as NaN is not equal to NaN.
    return bool(one.astype(order).tobytes() == two.astype(order).tobytes())


class StoreWriter(ClipWriter):
    """Writes the clips of a source to a frame store."""

    def write(self, path: str, tally: Tally) -> None:
        """Write all clips."""
        with FrameStore.create(
            path,
            preset=self._job.options.get("preset", "fast"),
            attrs=attrs_of(self._source),
            nthreads=self._job.nthreads,
        ) as store:
            for id_ in self._source:
                clip = self._source[id_]
                with _named(clip, self._source.name):
                    self.check_turns(clip)
                    store._append_clip(id_, clip, meta_of(clip))
                if not as_video(clip):
                    self._job.note(clip)
                tally.add_frames(len(clip), is_image=is_images(clip))
                tally.advance()


@contextmanager
def _named(clip: Clip, source: str | None) -> Iterator[None]:
    """Add the id of a clip to errors about its frames."""
    where = f"clip {quoted(clip.id)}"
    try:
        yield
    except BloscpackError as err:
        err.at(where, source)
        raise
    except (TypeError, ValueError) as err:
        kind = ValueError if isinstance(err, ValueError) else TypeError
        raise kind(f"{where}: {err}") from err


def leave_out_of_clips(
    job: CopyJob,
    source: FrameSource,
    *,
    attrs: Container[str] = (),
    meta: Callable[[Clip], Container[str]] | None = None,
    keeps: Callable[[tuple[int, ...]], bool] | None = None,
    decodes: Callable[[bytes], bool] | None = None,
    keeps_packets: bool = False,
) -> None:
    """Note everything that clips have beside frames, except what the type of the copy holds.

    Parameters
    ----------
    job : CopyJob
        Gets the texts.
    source : FrameSource
        The clips.
    attrs : container of str
        Attributes of the source that the copy has.
    meta : callable, optional
        Takes a clip, and returns the keys of its metadata that the copy has; by default all.
    keeps : callable, optional
        For a copy that holds pictures, so that it has no clip without frames: takes the shape of
        the channels, ``shape[3:]``, and returns whether frames keep it. By default all do.
    decodes : callable, optional
        Takes the bytes of an image, and returns whether the copy has its pixels alone.
    keeps_packets : bool
        Whether clips of video are copied with all that they have.
    """
    job.leave_out(*attributes(key for key in attrs_of(source) if key not in attrs))
    for id_ in source:
        clip = source[id_]
        name = f"clip {quoted(id_)}"
        if meta is not None:
            kept = meta(clip)
            job.leave_out(*attributes((key for key in meta_of(clip) if key not in kept), name))
        if keeps is not None and not len(clip):
            job.leave_out(f"{name}, which has no frames")
        elif keeps is not None and not keeps(clip.shape[3:]):
            job.leave_out(f"shape {clip.shape[1:]} of the frames of {name}")
        if decodes is not None:
            encoded = filter(decodes, data_of(clip))
            job.leave_out(*(text for data in encoded for text in lost_by_decoding(data)))
        if not (keeps_packets and as_video(clip)):
            job.note(clip)


def is_store(source: FrameSource) -> bool:
    """Return whether a source is a frame store."""
    return isinstance(source, FrameStore)


def attrs_of(source: FrameSource) -> dict[str, Any]:
    """Return the attributes of a source as a whole, for a frame store."""
    return getattr(source, "attrs", {})
