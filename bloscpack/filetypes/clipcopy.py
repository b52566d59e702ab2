"""Copying all clips of a source to a frame store or a Gulp directory.

A writer also describes the expected frames of each clip, so that source and copy can be compared
afterwards. It writes to a temporary path; the caller renames the result.
"""

import json
import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ..benzina.dataset import Dataset
from ..benzina.mp4.format import INPUT
from ..frames.protocol import Clip, FrameSource
from ..frames.store.framestore import FrameStore
from ..gulp.chunk.chunkfile import GulpChunk
from ..gulp.chunk.format import chunk_names
from ..gulp.clipmetadata import (
    LABELS_KEY,
    LABELS_NAME,
    dump_labels,
    load_labels,
    pack_entries,
    unpack_entries,
)
from ..gulp.clipsource import GulpClip, GulpSource
from ..media import image
from ..notice import notice
from ..parallel.threads import map_ordered, resolve_nthreads
from ..storage.sink import open_sink
from ..types import AnyArray, Progress

# Bytes of frames in memory at a time.
_BATCH_NBYTES = 16 << 20
_BATCH_IMAGES = 64
# Cost of encoding a byte as JPEG relative to decoding a Blosc chunk; scales the number of threads.
_ENCODING_COST = 5


class Tally:
    """Counts of clips, frames and images copied so far, with progress."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.frames = self.images = 0
        self._progress = progress
        self._total = total
        self._done = 0

    def add_frames(self, frames: int, *, is_image: bool) -> None:
        """Count frames that were written."""
        self.frames += frames
        self.images += frames if is_image else 0

    def add_clip(self) -> None:
        """Count a clip, and report progress."""
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)


class StoreWriter:
    """Writes the clips of a source to a frame store."""

    lossless = True

    def __init__(self, source: FrameSource, preset: str, nthreads: int | None) -> None:
        self._source = source
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
                batches = self.expected(clip)
                frames: Any = (frame for batch in batches for frame in batch)
                if not len(clip) and not is_images(clip):
                    frames = np.empty(clip.shape, clip.dtype)
                store.append(id_, frames, meta_of(clip))
                tally.add_frames(len(clip), is_image=is_images(clip))
                tally.add_clip()

    def expected(self, clip: Clip) -> Iterator[AnyArray] | Iterator[list[bytes]]:
        """Yield the frames that the copy of a clip must have."""
        return images_of(clip) if is_images(clip) else arrays_of(clip)

    def has_meta(self, clip: Clip, written: Clip) -> bool:
        """Return whether the copy of a clip has the right metadata."""
        return json.dumps(meta_of(clip)) == json.dumps(written.meta)


class GulpWriter:
    """Writes the clips of a source to a Gulp directory.

    Attributes
    ----------
    lossless : bool
        Whether no frame has been encoded so far.
    """

    def __init__(
        self,
        source: FrameSource,
        quality: int | None,
        videos_per_chunk: int,
        nthreads: int | None,
    ) -> None:
        if videos_per_chunk < 1:
            raise ValueError(f"videos_per_chunk must be at least 1, not {videos_per_chunk}")
        if quality is not None and not 1 <= quality <= 100:
            raise ValueError(f"quality must be 1 to 100, not {quality}")
        self._source = source
        self._quality = quality
        self._videos_per_chunk = videos_per_chunk
        self._nthreads = nthreads
        self.lossless = True
        for id_ in source:
            self._check(source[id_])

    def _check(self, clip: Clip) -> None:
        """Raise for a clip of arrays that JPEG cannot hold, before any clip is written."""
        if not len(clip) or is_images(clip):
            return
        if clip.dtype != np.uint8 or not (
            len(clip.shape) == 3 or (len(clip.shape) == 4 and clip.shape[3] in (1, 3))
        ):
            raise ValueError(
                f"clip {clip.id!r:.80}: a Gulp directory holds JPEG, which is uint8 of (H, W) or "
                f"(H, W, 3), and its frames are {clip.dtype} of {clip.shape[1:]}"
            )
        if self._quality is None:
            raise ValueError(
                f"clip {clip.id!r:.80}: a Gulp directory holds JPEG; give a quality to encode its "
                "frames, which loses detail"
            )

    def write(self, path: str, tally: Tally) -> None:
        """Write all clips."""
        os.mkdir(path)
        self._write_labels(path)
        ids = self._source.keys()
        nchunks = -(-len(ids) // self._videos_per_chunk)
        # Chunks are read in the order of their numbers as text: 0, 1, 10, 11, 2.
        for place, number in enumerate(sorted(range(nchunks), key=str)):
            first = place * self._videos_per_chunk
            _, data, meta = chunk_names(number)
            chunk = GulpChunk(os.path.join(path, data), os.path.join(path, meta))
            with chunk.open("wb"):
                for k in range(first, min(first + self._videos_per_chunk, len(ids))):
                    self._append(chunk, self._source[ids[k]], tally)
                    tally.add_clip()

    def _append(self, chunk: GulpChunk, clip: Clip, tally: Tally) -> None:
        chunk.append(clip.id, {}, [])
        for images in self.expected(clip):
            chunk.append(clip.id, {}, images)
        # Assigned afterwards, as `append` does not accept every form of entry.
        chunk.meta_dict[clip.id]["meta_data"] = _entries_of(clip)
        tally.add_frames(len(clip), is_image=is_images(clip))

    def _write_labels(self, path: str) -> None:
        attrs = attrs_of(self._source)
        labels = dump_labels(attrs)
        if labels is not None:
            with open_sink(os.path.join(path, LABELS_NAME)) as sink:
                sink.write(labels)
        left = ", ".join(name for name in attrs if name != LABELS_KEY)
        if left:
            notice("%s: a Gulp directory has no place for attributes: %s", self._source.name, left)

    def expected(self, clip: Clip) -> Iterator[list[bytes]]:
        """Yield the JPEGs of a clip of the source."""
        if is_images(clip):
            position = 0
            for images in images_of(clip):
                yield [self._jpeg(clip, position + k, data) for k, data in enumerate(images)]
                position += len(images)
            return
        encode = partial(image.encode_jpeg, quality=self._quality or 0)
        self.lossless = self.lossless and not len(clip)
        for frames in arrays_of(clip):
            nthreads = resolve_nthreads(self._nthreads, frames.nbytes * _ENCODING_COST)
            yield list(map_ordered(encode, frames, nthreads))

    def _jpeg(self, clip: Clip, index: int, data: bytes) -> bytes:
        """Return a JPEG image unchanged; encode any other, if `quality` is given."""
        info = image.probe(data)
        if info.kind == "jpeg":
            return data
        if self._quality is None:
            raise ValueError(
                f"clip {clip.id!r:.80}: frame {index} is a PNG image, and a Gulp directory holds "
                "JPEG; give a quality to encode it, which loses detail"
            )
        self.lossless = False
        try:
            return image.encode_jpeg(_pixels(data, info), quality=self._quality)
        except ValueError as err:
            raise ValueError(f"clip {clip.id!r:.80}: frame {index}: {err}") from err

    def has_meta(self, clip: Clip, written: Clip) -> bool:
        """Return whether the copy of a clip has the right metadata."""
        return json.dumps(_entries_of(clip)) == json.dumps(_entries_of(written))


Writer = StoreWriter | GulpWriter


def _pixels(data: bytes, info: image.ImageInfo) -> AnyArray:
    if info.dtype != np.uint8:
        raise ValueError(f"JPEG holds uint8, not {info.dtype}")
    return image.decode(data)


def is_images(clip: Clip) -> bool:
    """Return whether the frames of a clip are stored as JPEG or PNG images."""
    return clip.read_images([]) is not None


def images_of(clip: Clip) -> Iterator[list[bytes]]:
    """Yield the images of a clip in batches."""
    for start in range(0, len(clip), _BATCH_IMAGES):
        yield clip.read_images(slice(start, start + _BATCH_IMAGES)) or []


def arrays_of(clip: Clip) -> Iterator[AnyArray]:
    """Yield the frames of a clip in batches."""
    nbytes = int(np.prod(clip.shape[1:])) * clip.dtype.itemsize
    step = max(1, _BATCH_NBYTES // max(1, nbytes))
    for start in range(0, len(clip), step):
        yield clip.read(slice(start, start + step))


def meta_of(clip: Clip) -> dict[str, Any]:
    """Return the metadata of a clip for a frame store."""
    return pack_entries(clip.meta_data) if isinstance(clip, GulpClip) else clip.meta


def _entries_of(clip: Clip) -> list[Any] | None:
    """Return the metadata of a clip for a Gulp directory."""
    return clip.meta_data if isinstance(clip, GulpClip) else unpack_entries(clip.meta)


def attrs_of(source: FrameSource) -> dict[str, Any]:
    """Return the attributes of a source as a whole."""
    if isinstance(source, FrameStore):
        return source.attrs
    if isinstance(source, Dataset):
        return _attrs_of_dataset(source)
    is_gulp = isinstance(source, GulpSource) and source.name is not None
    return load_labels(source.name or "") if is_gulp else {}


def _attrs_of_dataset(source: Dataset) -> dict[str, Any]:
    """Return the splits of a dataset that is copied as a whole."""
    splits = source.splits
    if not splits or len(source) != len(source.tracks[INPUT]) or source.indices.step != 1:
        return {}
    return {"benzina": {"splits": {name: [of.start, of.stop] for name, of in splits.items()}}}
