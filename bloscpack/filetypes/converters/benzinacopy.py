"""Copying a source to a Benzina dataset, and comparing the two.

Samples of another dataset are copied byte for byte. Everything else is encoded, without loss of a
pixel unless a quality is given. Each frame becomes a sample. The metadata of its clip have its name
under "name", and its target under "target" or "label".
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, TypedDict, cast

import numpy as np

from ...benzina.codec.picture import read_picture
from ...benzina.dataset import Dataset
from ...benzina.dataset import open as open_dataset
from ...benzina.mp4.format import INPUT, pack_name
from ...benzina.packing import pack
from ...benzina.sample import Sample
from ...benzina.writer import Writer
from ...frames.protocol import LABELS_KEY, Clip, FrameSource
from ...frames.store.openclip import arrays_of, data_of, is_images, meta_of
from ...media import image
from ...media.pictureitems import Item, lost_by_decoding
from ...parallel.threads import ALL_THREADS, map_ordered, resolve_nthreads
from ...types import PictureCodec
from ..clipcopy import attrs_of, empty_clips
from ..copyjob import Conversion, CopyJob, Tally, write_copy
from ..inventory import attributes, quoted
from ..picturefolder import FolderSource

_INT64 = np.iinfo(np.int64)


class Quality(TypedDict, total=False):
    """Options to encode pictures; see `benzina.Writer`."""

    codec: PictureCodec
    crf: float | None
    tile: int
    lossless: bool


def copy_to_dataset(source: FrameSource, job: CopyJob) -> Conversion:
    """Copy a source to a new dataset."""
    return write_copy("benzina", source, _writer(source, job), job)


def stored_attrs(source: FrameSource) -> dict[str, Any] | None:
    """Return the splits of a dataset as attributes; None if the source is not a dataset."""
    if not isinstance(source, Dataset):
        return None
    splits = source.splits
    if not splits or len(source) != len(source.tracks[INPUT]) or source.indices.step != 1:
        return {}  # it has none, or is a view of some samples
    return {"benzina": {"splits": {name: [of.start, of.stop] for name, of in splits.items()}}}


def _writer(source: FrameSource, job: CopyJob) -> "SampleCopier | PictureEncoder":
    """Return the writer that copies a source to a dataset.

    Without a crf nothing is lost, and samples of a dataset are copied byte for byte.

    Raises
    ------
    ValueError
        A frame cannot be stored without loss; the message names the clip.
    """
    quality = cast("Quality", job.coding)
    is_exact = quality.get("crf") is None
    if isinstance(source, Dataset) and is_exact and not set(quality) - {"crf"}:
        return SampleCopier(source)
    items: Any
    if isinstance(source, FolderSource):
        items = source.folder
        job.leave_out(*(text for item in items for text in lost_by_decoding(item.picture)))
    else:
        items = ClipItems(source, job, is_exact)
    splits = _splits_of(source) if len(items) == len(source) else None
    kept = () if splits is None else ("benzina",)
    job.leave_out(*attributes(key for key in attrs_of(source) if key not in kept))
    return PictureEncoder(items, {**quality, "lossless": is_exact}, splits, job.nthreads)


def _splits_of(source: FrameSource) -> dict[str, tuple[int, int]] | None:
    """Return the splits of a dataset, or of a store that `stored_attrs` saved them in."""
    kept = attrs_of(source).get("benzina")
    splits = kept.get("splits") if isinstance(kept, Mapping) else None
    if not isinstance(splits, Mapping):
        return None
    return {str(name): (span[0], span[1]) for name, span in splits.items()}


class SampleCopier:
    """Writes the samples of a dataset, or of a view of one, to a new dataset."""

    lossless = True

    def __init__(self, source: Dataset) -> None:
        self._source = source
        self.total = len(source)

    def write(self, path: str, tally: Tally) -> None:
        """Write all samples, with their targets and names."""
        splits = _splits_of(self._source)
        with Writer(path, splits=splits) as writer:
            for sample in self._source.samples():
                target = sample.target
                name = sample.name_bytes
                writer.add_encoded(sample.data, None if target == -1 else target, name)
                tally.add_frames(1, is_image=True)
                tally.add_clip()

    def difference(self, path: str, tally: Tally) -> str | None:
        """Return a description of the first difference from the source, or None."""
        with open_dataset(path) as written:
            if len(written) != self.total:
                return "the number of samples"
            for one, two in zip(self._source.samples(), written.samples(), strict=True):
                if one.data != two.data or one.target != two.target:
                    return f"sample {one.index}: the bytes or the target"
                if (one.name_bytes or b"") != (two.name_bytes or b""):
                    return f"sample {one.index}: the name"
                tally.add_clip()
        return None


class ClipItems:
    """Frames of all clips as pictures for a dataset.

    If `is_exact`, frames that a dataset cannot store without loss are refused.
    """

    def __init__(self, source: FrameSource, job: CopyJob, is_exact: bool) -> None:
        self._source = source
        self._job = job
        self._is_exact = is_exact
        job.leave_out(*empty_clips(source))
        labels = attrs_of(source).get(LABELS_KEY)
        self._labels: Mapping[str, Any] = labels if isinstance(labels, Mapping) else {}
        self._count = 0
        for id_ in source:
            clip = source[id_]
            self._count += len(clip)
            meta = meta_of(clip)
            kept = {self._target(meta)[0], "name" if isinstance(meta.get("name"), str) else None}
            where = f"clip {quoted(id_)}"
            job.leave_out(*attributes((key for key in meta if key not in kept), where))
            if is_exact and len(clip) and not is_images(clip):
                _check(clip, clip.dtype, clip.shape[1:])

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Item]:
        for id_ in self._source:
            clip = self._source[id_]
            meta = meta_of(clip)
            name = meta.get("name", clip.id)
            _, target = self._target(meta)
            for number, frame in enumerate(self._frames(clip)):
                called = name if isinstance(name, str) else None
                if len(clip) > 1:
                    called = f"{called or clip.id}/{number:06d}"
                yield Item(frame, target, called)

    def _frames(self, clip: Clip) -> Iterator[Any]:
        """Yield coded images, so that the writer rotates them by their EXIF data, else arrays."""
        if not is_images(clip):
            for frames in arrays_of(clip):
                yield from frames
            return
        for data in data_of(clip):
            if self._is_exact:
                info = image.probe(data)
                _check(clip, info.dtype, info.shape)
            self._job.leave_out(*lost_by_decoding(data))
            yield data

    def _target(self, meta: Mapping[str, Any]) -> tuple[str | None, int | None]:
        """Return the entry of metadata with the target, and the target."""
        for key in ("target", "label"):
            value = meta.get(key)
            if value == -1:  # as a dataset stores that there is none
                return key, None
            if isinstance(value, str):  # labels of GulpIO2 have their numbers in label2idx
                value = self._labels.get(value)
            if type(value) is int and _INT64.min <= value <= _INT64.max:
                return key, value
        return None, None


def _check(clip: Clip, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    if dtype != np.uint8 or len(shape) not in (2, 3) or shape[2:] not in ((), (1,), (3,)):
        raise ValueError(
            f"clip {clip.id!r:.80}: a dataset stores uint8 of (H, W) or (H, W, 3) without loss, "
            f"and its frames are {dtype} of {shape}; give a crf to encode clips that allow it"
        )


class PictureEncoder:
    """Encodes pictures to a new dataset.

    Attributes
    ----------
    lossless : bool
        Whether every pixel is unchanged.
    """

    def __init__(
        self,
        items: Any,
        quality: Quality,
        splits: dict[str, tuple[int, int]] | None,
        nthreads: int | None,
    ) -> None:
        self._items = items
        self._quality = quality
        self.lossless = bool(quality.get("lossless"))
        self._splits = splits
        self._nthreads = nthreads
        self.total = len(items)

    def write(self, path: str, tally: Tally) -> None:
        """Write all pictures."""

        def done(_count: int, _total: int) -> None:
            tally.add_frames(1, is_image=False)
            tally.add_clip()

        pack(
            self._items,
            path,
            progress=done,
            nthreads=self._nthreads,
            splits=self._splits,
            **self._quality,
        )

    def difference(self, path: str, tally: Tally) -> str | None:
        """Return a description of the first difference from the source, or None.

        Lossy pictures are only compared in size, name and target.
        """
        nthreads = resolve_nthreads(self._nthreads, ALL_THREADS)
        compare = partial(_compared, is_exact=self.lossless)
        with open_dataset(path) as written:
            if len(written) != self.total:
                return "the number of samples"
            pairs = zip(self._items, written.samples(), strict=True)
            for found in map_ordered(compare, pairs, nthreads):
                if found is not None:
                    return found
                tally.add_clip()
        return None


def _compared(pair: tuple[Item, Sample], *, is_exact: bool) -> str | None:
    """Return a description of the first difference of a sample from its picture, or None."""
    item, sample = pair
    stored = b"" if item.name is None else pack_name(item.name)[:-1]
    if (sample.name_bytes or b"") != stored:
        return f"sample {sample.index}: the name"
    if sample.target != (-1 if item.target is None else item.target):
        return f"sample {sample.index}: the target"
    pixels = read_picture(item.picture)
    if not is_exact:
        _, _, width, height = sample.layout.tracks[INPUT].clean
        return None if pixels.shape[:2] == (height, width) else f"sample {sample.index}: the size"
    if not np.array_equal(sample.decode(INPUT), pixels):
        return f"sample {sample.index}: the pixels"
    return None
