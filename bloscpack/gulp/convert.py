"""Copying clips to a Gulp directory, which holds only JPEG, and the metadata of one for copies.

Recovery of a directory is such a copy, of the items that are whole.
"""

import copy
import json
import os
from collections.abc import Container, Iterator
from contextlib import closing, suppress
from functools import partial
from typing import Any

import numpy as np

from ..plugin import (
    COPY_DEFAULTS,
    LABELS_KEY,
    AnyArray,
    BloscpackError,
    Clip,
    ClipWriter,
    Conversion,
    CopyJob,
    Damage,
    FormatError,
    FrameSource,
    ListedFolder,
    Path,
    Progress,
    Report,
    Tally,
    arrays_of,
    attrs_of,
    image,
    images_of,
    is_images,
    leave_out_of_clips,
    map_ordered,
    message_of,
    open_sink,
    quoted,
    resolve_nthreads,
    verify,
    write_copy,
)
from .chunk.chunkfile import GulpChunk
from .chunk.format import LABELS_NAME, chunk_names
from .chunk.textindex import ItemPlace, scan_start
from .clipmetadata import dump_labels, unpack_entries
from .clipsource import GulpClip, GulpSource
from .verify import FileDamage, pairs_of

# Cost of encoding a byte as JPEG relative to decoding a Blosc chunk; scales the number of threads.
_ENCODING_COST = 5


def copy_to_gulp(source: FrameSource, job: CopyJob) -> Conversion:
    """Copy all clips of a source to a new Gulp directory."""
    writer = GulpWriter(source, job)
    is_png = None if "quality" not in job.options else lambda data: not image.is_jpeg(data)
    leave_out_of_clips(job, source, attrs=(LABELS_KEY,), decodes=is_png)
    for id_ in source:
        clip = source[id_]
        if (not len(clip) and clip.shape[1:]) or clip.shape[3:] == (1,):
            job.leave_out(f"shape {clip.shape[1:]} of the frames of clip {quoted(id_)}")
    return write_copy("gulp", source, writer, job, is_folder=True)


class GulpWriter(ClipWriter):
    """Writes the clips of a source to a Gulp directory; `lossless` until a frame is encoded."""

    is_upright = False

    def __init__(self, source: FrameSource, job: CopyJob) -> None:
        options = {**COPY_DEFAULTS, **job.options}
        quality, videos_per_chunk = options.get("quality"), options["videos_per_chunk"]
        if videos_per_chunk < 1:
            raise ValueError(f"videos_per_chunk must be at least 1, not {videos_per_chunk}")
        if quality is not None:
            image.check_quality(quality)
        super().__init__(source, job)
        self._quality = quality
        self._videos_per_chunk = videos_per_chunk
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
                    tally.advance()

    def _append(self, chunk: GulpChunk, clip: Clip, tally: Tally) -> None:
        self.check_turns(clip)
        chunk.append(clip.id, {}, [])
        for images in self.expected(clip):
            chunk.append(clip.id, {}, images)
        # Assigned afterwards, as `append` does not accept every form of entry.
        chunk.meta_dict[clip.id]["meta_data"] = _entries_of(clip)
        tally.add_frames(len(clip), is_image=is_images(clip))

    def _write_labels(self, path: str) -> None:
        labels = dump_labels(attrs_of(self._source))
        if labels is not None:
            with open_sink(os.path.join(path, LABELS_NAME)) as sink:
                sink.write(labels)

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
            nthreads = resolve_nthreads(self._job.nthreads, frames.nbytes * _ENCODING_COST)
            yield list(map_ordered(encode, frames, nthreads))

    def _jpeg(self, clip: Clip, index: int, data: bytes) -> bytes:
        """Return a JPEG image unchanged; encode any other, if `quality` is given."""
        info = image.inspect(data)[0]
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

    def difference(self, path: str, tally: Tally) -> str | None:
        """Return a description of the first difference from the source, or None."""
        # An empty folder has no type to open.
        return super().difference(path, tally) if len(self._source) else None

    def has_meta(self, clip: Clip, written: Clip) -> bool:
        """Return whether the copy of a clip has the right metadata."""
        return json.dumps(_entries_of(clip)) == json.dumps(_entries_of(written))


def _pixels(data: bytes, info: image.ImageInfo) -> AnyArray:
    if info.dtype != np.uint8:
        raise ValueError(f"JPEG holds uint8, not {info.dtype}")
    return image.decode(data, upright=True)


def _entries_of(clip: Clip) -> list[Any] | None:
    """Return the metadata of a clip for a Gulp directory."""
    return clip.meta_data if isinstance(clip, GulpClip) else unpack_entries(clip.meta)


class _WholeItems(GulpSource):
    """The items of a directory that are whole; of two with one id, the first."""

    def __init__(self, folder: ListedFolder) -> None:
        self.damage: list[Damage] = []
        self.nrefused = 0
        super().__init__(folder)

    def _scan(self, data: bytes, meta: str) -> tuple[str, list[ItemPlace]]:
        try:
            return super()._scan(data, meta)
        except FormatError as err:
            with suppress(FormatError):
                text, places = scan_start(data)
                what = f"{message_of(err)}; {len(places)} items before the damage are read"
                self.damage.append(FileDamage(what, file=meta))
                return text, places
            raise

    def _refuse(self, id_: str, meta: str, other: str) -> None:
        what = f"item {id_!r:.80} is in {other} too, and only that one is read"
        self.damage.append(FileDamage(what, file=meta))
        self.nrefused += 1

    def has_entries(self, damage: Damage) -> bool:
        """Return whether the metadata of a damaged item can be copied, though no object leads."""
        with suppress(BloscpackError):
            return self[damage.clip or ""].meta_data is not None
        return False

    def keep(self, ids: Container[str]) -> None:
        """Leave only these items."""
        self._keys = tuple(id_ for id_ in self._keys if id_ in ids)


def recover_directory(
    folder: ListedFolder,
    dst: Path,
    *,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Write a new Gulp directory with every whole item of a damaged one, which is only read.

    Every frame is decoded. In the report, `nchunks` counts the items that were found, and `saved`
    those of the copy. `progress` counts items.

    Raises
    ------
    FormatError
        No item can be saved; `dst` is not changed.
    FileExistsError
        `dst` is a file, or a folder that is not empty.
    TypeError
        `dst` is not a path.
    """
    if not isinstance(dst, str | os.PathLike):
        raise TypeError("a Gulp directory is written to the path of a folder, not to a stream")
    damage: list[Damage] = []
    listed = copy.copy(folder)
    listed.names = _readable_names(folder, damage)
    if not listed.names:
        raise FormatError("no whole index was found: nothing can be saved").at(
            path=folder.name, whole=""
        )
    listed.names += [name for name in folder.names if name == LABELS_NAME]
    with closing(_WholeItems(listed)) as source:
        damage += source.damage
        report = verify(source, progress=progress)
        lost = {each.clip for each in report.damage if each.frames or not source.has_entries(each)}
        source.keep(set(source) - lost)
        if not len(source):
            raise FormatError("no whole item was found: nothing can be saved").at(
                path=folder.name, whole=""
            )
        job = CopyJob(
            target=os.path.realpath(dst),
            name=os.fspath(dst),
            progress=progress,
            nthreads=nthreads,
        )
        job.check_target(is_folder=True)
        copied = copy_to_gulp(source, job)
    return Report(
        folder.name,
        report.nchunks + source.nrefused,
        0,
        [*damage, *report.damage],
        notices=[f"{copied.frames} frames saved"],
        saved=copied.clips,
    )


def _readable_names(folder: ListedFolder, damage: list[Damage]) -> list[str]:
    """Return the files of the chunks whose index can be read; add the others to `damage`."""
    names: list[str] = []
    for data, meta in pairs_of(sorted(folder.names), damage):
        pair = copy.copy(folder)
        pair.names = [data, meta]
        try:
            _WholeItems(pair).close()
        except BloscpackError as err:
            damage.append(FileDamage(message_of(err), file=meta))
        else:
            names += [data, meta]
    return names
