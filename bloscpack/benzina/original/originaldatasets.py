"""Benzina's dataset classes, as in 0.0.5 (torch/dataset.py), for existing scripts.

Map-style datasets for torch's ``DataLoader``, which only needs a length and items; torch is not
required here. Differences from 0.0.5: targets may be anywhere in the file, and a split of a dataset
that is too small for it is an error.
"""

import os
from typing import Any, ClassVar, NamedTuple, NoReturn, TypeAlias

import numpy as np

from ...plugin import IntArray
from ..datasetfile import read_targets
from ..mp4.format import INPUT, TARGET, THUMB
from ..splits import IMAGENET_TEST, IMAGENET_VAL
from .benzinafile import Path, Sample, Track

TrackPair: TypeAlias = tuple[str, str] | tuple[Track, Track]


class Item(NamedTuple):
    """Item of a `Dataset`."""

    input: Sample


class ClassificationItem(NamedTuple):
    """Item of a `ClassificationDataset`."""

    input: Sample
    input_label: str
    """Track of the sample to use as its picture."""
    target: tuple[np.int64]


class Dataset:
    """The samples of a track; Benzina's ``Dataset``.

    Parameters
    ----------
    archive : str, PathLike or Track, optional
        The file, with ``~`` and variables expanded, or the track itself.
    track : str or Track
        Name of the track; without `archive`, the track itself.

    Raises
    ------
    ValueError
        The file is missing, or the arguments contradict each other.
    FormatError, NotFoundError, OSError
        As for `Track`.

    Notes
    -----
    An item is an `Item`: a named tuple with the field `input`, a `Sample` of the track.
    """

    def __init__(self, archive: Path | Track | None = None, track: str | Track = INPUT) -> None:
        if isinstance(archive, Track):
            self._track = archive
        elif archive is not None:
            if not isinstance(track, str):
                raise ValueError("track must be a name if archive is given")  # noqa: TRY004
            self._track = Track(_find_file(archive), track)
        elif isinstance(track, Track):
            self._track = track
        else:
            raise ValueError("track must be a Track if archive is not given")
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
        raise NotImplementedError("adding datasets is not supported")


class ClassificationDataset(Dataset):
    """Samples with their targets; Benzina's ``ClassificationDataset``.

    Parameters
    ----------
    archive : str, PathLike or pair of Track, optional
        The file, with ``~`` and variables expanded, or the tracks themselves.
    tracks : pair of str or of Track
        Names of the tracks of samples and targets; without `archive`, the tracks themselves.
    input_label : str
        Track of a sample to use as its picture; included in each item.

    Raises
    ------
    ValueError
        The file is missing, or the arguments contradict each other.
    FormatError, NotFoundError, OSError
        As for `Track`; the targets are read at once.

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
        """The target of each sample, int64 (n,), -1 where it is missing."""
        return self._targets

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index: int) -> Any:
        sample = self._track[self._indices[index]]
        return ClassificationItem(sample, self._input_label, (self._targets[index],))


class ImageNet(ClassificationDataset):
    """ImageNet, whole or one split by position; Benzina's ``ImageNet``.

    Parameters
    ----------
    root : str, PathLike or pair of Track, optional
        The file, or the folder of ``ilsvrc2012.bzna`` or ``ilsvrc2012.mp4``, with ``~`` and
        variables expanded, or the tracks themselves.
    split : {None, "train", "val", "test"}
        The last `LEN_TEST` samples are for testing, the `LEN_VALID` before them for validation, the
        rest for training.
    tracks, input_label
        As for `ClassificationDataset`.

    Raises
    ------
    ValueError
        The file is missing, the arguments contradict each other, or there are too few samples.
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
            root = _find_archive(_expand(root))
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
    if isinstance(archive, str | os.PathLike):
        path = _find_file(archive)
        first, second = (Track(path, name) if isinstance(name, str) else None for name in tracks)
        if first is None or second is None:
            raise ValueError("tracks must be a pair of names if archive is given")
        return first, second
    given = tracks if archive is None else archive
    first, second = (track if isinstance(track, Track) else None for track in given)
    if first is None or second is None:
        raise ValueError("tracks must be a pair of Track if archive is not given")
    return first, second


def _expand(path: Path) -> str:
    return os.path.expandvars(os.path.expanduser(os.fsdecode(path)))


def _find_file(archive: Path) -> str:
    path = _expand(archive)
    if not os.path.isfile(path):
        raise ValueError(f"file not found: {path}")
    return path


def _find_archive(root: str) -> str:
    """Return the file of a dataset, given by its path or folder."""
    names = "ilsvrc2012.bzna", "ilsvrc2012.mp4"
    for path in (root, *(os.path.join(root, name) for name in names)):
        if os.path.isfile(path):
            return path
    raise ValueError(f"file not found: {root}, nor {' or '.join(names)} in a folder of that name")
