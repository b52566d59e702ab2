"""Benzina's dataset classes, for scripts that used them: those of 0.0.5 (torch/dataset.py).

Map-style datasets for torch's ``DataLoader``, which wants of these no more than a length and items;
torch itself is not needed. What differs from 0.0.5: targets may lie anywhere, and a split of a
dataset that is too small for it is an error.
"""

import os
from typing import Any, ClassVar, NamedTuple, NoReturn, TypeAlias

import numpy as np

from ...types import IntArray
from ..datasetfile import read_targets
from ..mp4.format import INPUT, TARGET, THUMB
from ..splits import IMAGENET_TEST, IMAGENET_VAL
from .benzinafile import Path, Sample, Track

TrackPair: TypeAlias = tuple[str, str] | tuple[Track, Track]


class Item(NamedTuple):
    """What a `Dataset` has for an index."""

    input: Sample


class ClassificationItem(NamedTuple):
    """What a `ClassificationDataset` has for an index."""

    input: Sample
    input_label: str
    """Which track of the sample is meant to be its picture."""
    target: tuple[np.int64]


class Dataset:
    """The samples of a track; Benzina's ``Dataset``.

    Parameters
    ----------
    archive : str, PathLike or Track, optional
        The file, with ``~`` and variables expanded. Or the track itself.
    track : str or Track
        The name of the track, or without `archive` the track itself.

    Raises
    ------
    ValueError
        The file is missing, or the arguments do not fit.
    FormatError, NotFoundError, OSError
        As by `Track`.

    Notes
    -----
    An item is an `Item`: a named tuple with the field `input`, a `Sample` of the track.
    """

    def __init__(self, archive: Path | Track | None = None, track: str | Track = INPUT) -> None:
        if isinstance(archive, Track):
            self._track = archive
        elif archive is not None:
            if not isinstance(track, str):
                raise ValueError("track must be a name where archive is given")  # noqa: TRY004
            self._track = Track(_existing(archive), track)
        elif isinstance(track, Track):
            self._track = track
        else:
            raise ValueError("track must be a Track where no archive is given")
        self._track.open()

    @property
    def filename(self) -> str | None:
        """The path of the file."""
        return self._track.file.name

    def __len__(self) -> int:
        return len(self._track)

    def __getitem__(self, index: int) -> Any:
        return Item(self._track[index])

    def __add__(self, other: object) -> NoReturn:
        raise NotImplementedError("datasets are not added")


class ClassificationDataset(Dataset):
    """Samples with their targets; Benzina's ``ClassificationDataset``.

    Parameters
    ----------
    archive : str, PathLike or pair of Track, optional
        The file, with ``~`` and variables expanded. Or the tracks themselves.
    tracks : pair of str or of Track
        Names of the tracks of samples and of targets, or without `archive` the tracks themselves.
    input_label : str
        Which track of a sample is meant to be its picture; handed on with each item.

    Raises
    ------
    ValueError
        The file is missing, or the arguments do not fit.
    FormatError, NotFoundError, OSError
        As by `Track`; the targets are read here.

    Notes
    -----
    An item is a `ClassificationItem`: `input`, `input_label`, and `target`, a tuple of one int64.
    """

    def __init__(
        self,
        archive: Path | tuple[Track, Track] | None = None,
        tracks: TrackPair = (INPUT, TARGET),
        input_label: str = THUMB,
    ) -> None:
        first, second = _track_pair(archive, tracks)
        super().__init__(first)
        self._input_label = input_label
        self._targets: IntArray = read_targets(second.stored, len(first))
        self._indices = range(len(first))

    @property
    def targets(self) -> IntArray:
        """The target of each sample, int64 (n,), -1 where it has none."""
        return self._targets

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index: int) -> Any:
        sample = self._track[self._indices[index]]
        return ClassificationItem(sample, self._input_label, (self._targets[index],))


class ImageNet(ClassificationDataset):
    """ImageNet, all of it or a split by position; Benzina's ``ImageNet``.

    Parameters
    ----------
    root : str, PathLike or pair of Track, optional
        The file, or the folder of ``ilsvrc2012.bzna`` or ``ilsvrc2012.mp4``, with ``~`` and
        variables expanded. Or the tracks themselves.
    split : {None, "train", "val", "test"}
        The last `LEN_TEST` samples are for testing, the `LEN_VALID` before for validation, the rest
        for training.
    tracks, input_label
        As for `ClassificationDataset`.

    Raises
    ------
    ValueError
        The file is missing, the arguments do not fit, or there are too few samples for splits.
    FormatError, NotFoundError, OSError
        As for `ClassificationDataset`.
    """

    LEN_VALID: ClassVar[int] = IMAGENET_VAL
    LEN_TEST: ClassVar[int] = IMAGENET_TEST

    def __init__(
        self,
        root: Path | tuple[Track, Track] | None = None,
        split: str | None = None,
        tracks: TrackPair = (INPUT, TARGET),
        input_label: str = THUMB,
    ) -> None:
        if split not in (None, "train", "val", "test"):
            raise ValueError(f"split must be train, val, test or None, not {split!r:.80}")
        if isinstance(root, str | os.PathLike):
            root = _archive_of(_expanded(root))
        super().__init__(root, tracks, input_label)
        if split is None:
            return
        count = len(self)
        train, val = count - self.LEN_TEST - self.LEN_VALID, count - self.LEN_TEST
        if train < 0:
            raise ValueError(
                f"{count} samples are too few for {self.LEN_VALID} of 'val' and {self.LEN_TEST} "
                "of 'test'"
            )
        first, last = {"train": (0, train), "val": (train, val), "test": (val, count)}[split]
        self._indices = range(first, last)
        self._targets = self._targets[first:last]


def _track_pair(
    archive: Path | tuple[Track, Track] | None, tracks: TrackPair
) -> tuple[Track, Track]:
    """Return the tracks of samples and of targets."""
    if isinstance(archive, str | os.PathLike):
        path = _existing(archive)
        first, second = (Track(path, name) if isinstance(name, str) else None for name in tracks)
        if first is None or second is None:
            raise ValueError("tracks must be a pair of names where archive is given")
        return first, second
    given = tracks if archive is None else archive
    first, second = (track if isinstance(track, Track) else None for track in given)
    if first is None or second is None:
        raise ValueError("tracks must be a pair of Track where no archive is given")
    return first, second


def _expanded(path: Path) -> str:
    return os.path.expandvars(os.path.expanduser(os.fsdecode(path)))


def _existing(archive: Path) -> str:
    path = _expanded(archive)
    if not os.path.isfile(path):
        raise ValueError(f"there is no file {path}")
    return path


def _archive_of(root: str) -> str:
    """Return the file of a dataset that is told by its folder."""
    names = "ilsvrc2012.bzna", "ilsvrc2012.mp4"
    for path in (root, *(os.path.join(root, name) for name in names)):
        if os.path.isfile(path):
            return path
    raise ValueError(f"there is no file {root}, and no {' or '.join(names)} in such a folder")
