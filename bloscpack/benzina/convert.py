"""Copying a source to a Benzina dataset, and comparing the two.

Samples of another dataset are copied byte for byte. Everything else is encoded, without loss of a
pixel unless a quality is given. Each frame becomes a sample. The metadata of its clip have its name
under "name", and its target under "target" or "label".
"""

from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, TypedDict, cast

import numpy as np

from ..plugin import (
    ALL_THREADS,
    LABELS_KEY,
    Clip,
    Conversion,
    CopyJob,
    FolderSource,
    FrameSource,
    Item,
    PictureCodec,
    Tally,
    arrays_of,
    attrs_of,
    data_of,
    image,
    is_images,
    leave_out_of_clips,
    map_ordered,
    meta_of,
    quoted,
    resolve_nthreads,
    write_copy,
)
from .codec.picture import read_picture
from .dataset import Dataset
from .dataset import open as open_dataset
from .mp4.format import INPUT, pack_name
from .names import IdTable, NameTable
from .packing import pack
from .sample import Sample, name_text
from .splits import resolve_splits
from .writer import Writer

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


def _writer(source: FrameSource, job: CopyJob) -> "SampleCopier | PictureEncoder":
    """Return the writer that copies a source to a dataset.

    Without a crf nothing is lost, and samples of a dataset are copied byte for byte.

    Raises
    ------
    ValueError
        A frame cannot be stored without loss; the message names the clip.
    """
    quality = cast("Quality", job.options)
    is_exact = quality.get("crf") is None
    as_stored = is_exact and not set(quality) - {"crf"}
    if as_stored and isinstance(source, Dataset) and source._shown == INPUT:
        job.carry(*map(name_text, source.indices))
        return SampleCopier(source)
    # Files of a folder may be of any type that Pillow reads, so `pack` lists what it leaves out.
    items: Any = source.folder if isinstance(source, FolderSource) else ClipItems(source, is_exact)
    splits = _splits_of(source, len(items)) if len(items) == len(source) else None
    if isinstance(items, ClipItems):
        items.leave_out(job, attrs=() if splits is None else ("benzina",))
    return PictureEncoder(items, job, {**quality, "lossless": is_exact}, splits)


def _splits_of(source: FrameSource, count: int) -> dict[str, tuple[int, int]] | None:
    """Return the splits of a dataset of `count` samples, or of a store that has its attributes.

    None for a store that has only some of the samples, which the splits number, and for attributes
    of another form.
    """
    kept = attrs_of(source).get("benzina")
    splits = kept.get("splits") if isinstance(kept, Mapping) else None
    if not isinstance(kept, Mapping) or not isinstance(splits, Mapping):
        return None
    if kept.get("nsamples") != count:
        return None
    with suppress(TypeError, ValueError):
        return {k: (of.start, of.stop) for k, of in resolve_splits(splits, count).items()}
    return None


class SampleCopier:
    """Writes the samples of a dataset, or of a view of one, to a new dataset."""

    lossless = True

    def __init__(self, source: Dataset) -> None:
        self._source = source
        self.total = len(source)

    def write(self, path: str, tally: Tally) -> None:
        """Write all samples, with their targets and names."""
        splits = _splits_of(self._source, self.total)
        with Writer(path, splits=splits) as writer:
            for sample in self._source.samples():
                target = sample.target
                name = sample.name_bytes
                writer.add_encoded(sample.data, None if target == -1 else target, name)
                tally.add_frames(1, is_image=True)
                tally.advance()

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
                tally.advance()
        return None


class ClipItems:
    """Frames of all clips as pictures for a dataset.

    If `is_exact`, frames that a dataset cannot store without loss are refused.
    """

    def __init__(self, source: FrameSource, is_exact: bool) -> None:
        self._source = source
        self._is_exact = is_exact
        labels = attrs_of(source).get(LABELS_KEY)
        self._labels: Mapping[str, Any] = labels if isinstance(labels, Mapping) else {}
        self._count = 0
        for id_ in source:
            clip = source[id_]
            self._count += len(clip)
            if is_exact and len(clip) and not is_images(clip):
                _check(clip, clip.dtype, clip.shape[1:])

    def leave_out(self, job: CopyJob, attrs: Container[str]) -> None:
        """Note what samples lack of the clips."""

        def kept(clip: Clip) -> set[Any]:
            meta = meta_of(clip)
            return {self._target(meta)[0], "name" if isinstance(meta.get("name"), str) else None}

        leave_out_of_clips(
            job,
            self._source,
            attrs=attrs,
            meta=kept,
            keeps=lambda channels: channels == (3,),
            decodes=lambda _: True,
        )
        names = [pack_name(name) for _, _, _, name in self._named()]
        ids = IdTable(NameTable(b"".join(names), np.array([*map(len, names)], "i8"), len(names)))
        for index, (clip, number, _, _) in enumerate(self._named()):
            wanted = clip.id if len(clip) == 1 else _numbered(clip.id, number)
            if not number and ids[index] != wanted:
                job.leave_out(f"id of clip {quoted(clip.id)}, which is named {ids[index]!r:.80}")

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Item]:
        frames: Iterator[Any] = iter(())
        for clip, number, target, name in self._named():
            if not number:
                frames = self._frames(clip)
            yield Item(next(frames), target, name)

    def _named(self) -> Iterator[tuple[Clip, int, int | None, str]]:
        """Yield clip, number, target and name of each frame."""
        for id_ in self._source:
            clip = self._source[id_]
            meta = meta_of(clip)
            name = meta.get("name")
            called = name if isinstance(name, str) else clip.id
            for number in range(len(clip)):
                is_one = len(clip) == 1
                yield (
                    clip,
                    number,
                    self._target(meta)[1],
                    called if is_one else _numbered(called or clip.id, number),
                )

    def _frames(self, clip: Clip) -> Iterator[Any]:
        """Yield the frames as the source reads them; images of CMYK, which are lossy, as bytes."""
        if not is_images(clip):
            yield from chain.from_iterable(arrays_of(clip))
            return
        for number, data in enumerate(data_of(clip)):
            info = image.probe(data)
            if self._is_exact:
                _check(clip, info.dtype, info.shape)
            is_cmyk = info.kind == "jpeg" and info.shape[2:] == (4,)
            yield data if is_cmyk else clip.read(number)

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


def _numbered(name: str, number: int) -> str:
    return f"{name}/{number:06d}"


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
        job: CopyJob,
        quality: Quality,
        splits: dict[str, tuple[int, int]] | None,
    ) -> None:
        self._items = items
        self._job = job
        self._quality = quality
        self.lossless = bool(quality.get("lossless"))
        self._splits = splits
        self.total = len(items)

    def write(self, path: str, tally: Tally) -> None:
        """Write all pictures."""

        def done(_count: int, _total: int) -> None:
            tally.add_frames(1, is_image=False)
            tally.advance()

        report = pack(
            self._items,
            path,
            progress=done,
            nthreads=self._job.nthreads,
            splits=self._splits,
            **self._quality,
        )
        self._job.leave_out(*report.left_out)
        self.lossless = report.lossless

    def difference(self, path: str, tally: Tally) -> str | None:
        """Return a description of the first difference from the source, or None.

        Lossy pictures are only compared in size, name and target.
        """
        nthreads = resolve_nthreads(self._job.nthreads, ALL_THREADS)
        compare = partial(_compared, is_exact=bool(self._quality.get("lossless")))
        with open_dataset(path) as written:
            if len(written) != self.total:
                return "the number of samples"
            pairs = zip(self._items, written.samples(), strict=True)
            for found in map_ordered(compare, pairs, nthreads):
                if found is not None:
                    return found
                tally.advance()
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
