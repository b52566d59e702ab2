"""Verify a dataset by reading all of it.

The place of each sample is compared with the file and with the other samples, and every sample is
parsed; with ``decode=True`` every picture is decoded. All faults are found, not only the first. A
sample that cannot be parsed is damage, even if it is only encrypted or stored in another file.
Things that are valid but unusual are notices: a name or thumbnail that differs from the one inside
the sample, or an unknown codec.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..container.writer import Progress
from ..damage.report import Damage, Report
from ..exceptions import BloscpackError, FormatError, UnsupportedError, WrongKindError
from ..parallel.threads import map_ordered, resolve_nthreads
from ..types import IntArray
from .dataset import Dataset
from .dataset import open as open_dataset
from .mp4.format import INPUT, NAME, TARGET, TARGET_NBYTES, THUMB
from .mp4.samplelayout import InnerTrack
from .mp4.track import DatasetTrack
from .sample import Sample

# Faults beyond this number are counted, but not listed.
MAX_DAMAGE = 1000
# Number of consecutive samples in one thread's task.
_BATCH = 64
# Cost of decoding a stored byte, relative to reading it.
_DECODING_COST = 50
# Codecs and names come from the file, so their length in a notice is limited.
_MAX_TEXT = 400


def verify(
    path: Any,
    *,
    decode: bool = False,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Look for damage in a dataset without changing it.

    Parameters
    ----------
    path : str, PathLike, buffer or binary file
        The file.
    decode : bool, default False
        Also decode every picture, and every thumbnail that is not the picture itself.
    nthreads : int, optional
        Number of threads that read and decode; by default one per processor, at most 8.
    progress : callable, optional
        Called with (bytes of samples done, bytes of samples in total).

    Returns
    -------
    Report
        `nchunks` counts samples and `nbytes` their bytes, as recorded in the file. In `damage`,
        `index` is the ordinal of a sample; only the first `MAX_DAMAGE` faults are listed.

    Raises
    ------
    WrongKindError
        The file is of another type; the message names the call that reads it.
    UnsupportedError
        The file uses a feature that is not supported.
    OSError
        The file cannot be read.
    ImportError
        `decode` is True, and PyAV is missing.

    Notes
    -----
    Holds the tables, targets and names of the file in memory, and a few samples per thread.
    """
    try:
        dataset = open_dataset(path)
    except WrongKindError:
        raise
    except FormatError as err:
        return Report(err.path, 0, 0, [Damage(_message(err), None, err.offset)])
    with dataset:
        return _Verification(dataset).run(nthreads, progress, decode=decode)


@dataclass(slots=True)
class _Findings:
    """Damage and notices found in some samples."""

    nbytes: int
    damage: list[tuple[int, str]] = field(default_factory=list)
    notices: Counter[str] = field(default_factory=Counter)


class _Verification:
    """One run of `verify`."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._damage: list[Damage] = []
        self._nfaults = 0
        self._notices: Counter[str] = Counter()
        self._checker = _SampleChecker(dataset.tracks)

    def run(self, nthreads: int | None, progress: Progress | None, *, decode: bool) -> Report:
        """Check everything."""
        dataset, nbytes = self._dataset, 0
        self._check_entries()
        try:
            starts, sizes = dataset.tracks[INPUT].extents(slice(None))
            nbytes = int(sizes.sum())
        except FormatError as err:
            self._report(Damage(_message(err), None, err.offset))
        else:
            self._check_places(starts, sizes)
            self._check_samples(nbytes, nthreads, progress, decode=decode)
        notices = [
            f"{text} ({count} sample{'' if count == 1 else 's'})"
            for text, count in self._notices.items()
        ]
        if self._nfaults > len(self._damage):
            notices.append(f"{self._nfaults - len(self._damage)} more faults are not listed")
        return Report(dataset.name, len(dataset), nbytes, self._damage, "absent", notices)

    def _report(self, damage: Damage) -> None:
        self._nfaults += 1
        if len(self._damage) < MAX_DAMAGE:
            self._damage.append(damage)

    def _report_sample(
        self, index: int, what: str, start: int | None = None, size: int = 0
    ) -> None:
        end = None if start is None else start + size
        try:
            id_ = self._dataset.keys()[index]
        except FormatError:  # of the names, already reported
            id_ = None
        self._report(Damage(what, index, start, end, clip=id_, frames=(0, 1)))

    def _check_entries(self) -> None:
        """Check targets, names and splits, each of which is read as a whole."""
        for name, track in (("targets", TARGET), ("names", NAME), ("splits", "")):
            try:
                getattr(self._dataset, name)
            except FormatError as err:
                self._report(Damage(_message(err), None, err.offset))
                self._checker.entries.pop(track, None)

    def _check_places(self, starts: IntArray, sizes: IntArray) -> None:
        """Check that samples do not lie beyond the file, in its index or over each other."""
        size = self._dataset.nbytes
        moov = self._dataset.movie.moov
        ends = starts + sizes
        order = np.argsort(starts, kind="stable")
        # Largest end of the samples that begin earlier.
        reached = np.zeros(len(order), np.int64)
        np.maximum.accumulate(ends[order][:-1], out=reached[1:])
        is_shared = np.zeros(len(order), np.bool_)
        is_shared[1:] = (np.diff(starts[order]) == 0) & (np.diff(ends[order]) == 0)
        self._notices["the bytes are those of another sample"] += int(is_shared.sum())
        overlaps = np.zeros(len(order), np.bool_)
        overlaps[order] = (starts[order] < reached) & ~is_shared
        is_outside = ends > size
        in_index = (starts < moov.end) & (ends > moov.offset)
        for wrong, what in (
            (is_outside, f"it extends beyond the end of the file, which has {size} bytes"),
            (in_index & ~is_outside, "it lies in the box 'moov'"),
            (overlaps & ~is_outside & ~in_index, "it overlaps another sample"),
        ):
            for index in np.flatnonzero(wrong).tolist():
                extent = starts.item(index), sizes.item(index)
                self._report_sample(index, f"sample {index}: {what}", *extent)

    def _check_samples(
        self, total: int, nthreads: int | None, progress: Progress | None, *, decode: bool
    ) -> None:
        """Parse every sample, in threads."""
        count, size, done = len(self._dataset), self._dataset.nbytes, 0
        starts, sizes = self._dataset.tracks[INPUT].extents(slice(None))
        is_there = starts + sizes <= size

        def check(first: int) -> _Findings:
            last = min(first + _BATCH, count)
            picked = (first + np.flatnonzero(is_there[first:last])).tolist()
            found = _Findings(int(sizes[first:last].sum()))
            for sample in self._dataset.samples(picked):
                self._checker.check(sample, found, decode=decode)
            return found

        work = int(sizes[is_there].sum()) * (_DECODING_COST if decode else 1)
        threads = resolve_nthreads(nthreads, work)
        for found in map_ordered(check, range(0, count, _BATCH), threads):
            for index, what in found.damage:
                self._report_sample(index, what, starts.item(index), sizes.item(index))
            self._notices += found.notices
            done += found.nbytes
            if progress is not None:
                progress(done, total)


class _SampleChecker:
    """Checks of single samples against the tables of the dataset.

    Attributes
    ----------
    entries : dict of str to DatasetTrack
        The undamaged tracks, by name.
    """

    def __init__(self, tracks: Mapping[str, DatasetTrack]) -> None:
        self.entries = {name: tracks[name] for name in (TARGET, NAME, THUMB) if name in tracks}

    def check(self, sample: Sample, found: _Findings, *, decode: bool) -> None:
        """Check a sample and add what is found to `found`."""
        try:
            sample.layout  # noqa: B018 - parses the sample
        except BloscpackError as err:
            # None of its tracks can be read, even if the sample is valid but not supported.
            found.damage.append(
                (sample.index, f"sample {sample.index}: {_sample_message(err, sample)}")
            )
            return
        for error in self._errors(sample, found, decode=decode):
            text = _sample_message(error, sample)
            if isinstance(error, UnsupportedError):
                found.notices[text[:_MAX_TEXT]] += 1
            else:
                found.damage.append((sample.index, f"sample {sample.index}: {text}"))

    def _errors(
        self, sample: Sample, found: _Findings, *, decode: bool
    ) -> Iterator[BloscpackError]:
        tracks = sample.layout.tracks
        if INPUT not in tracks:
            yield FormatError(f"it has no track {INPUT!r}")
            return
        try:
            self._compare(sample, found)
        except BloscpackError as err:
            yield err
        todo = [INPUT] if decode else []
        if decode and THUMB in tracks and not _is_same_picture(tracks[INPUT], tracks[THUMB]):
            todo.append(THUMB)
        for name in todo:
            try:
                sample.decode(name)
            except BloscpackError as err:
                yield err

    def _compare(self, sample: Sample, found: _Findings) -> None:
        """Compare a sample's own target, name and thumbnail with those of the dataset."""
        tracks, index = sample.layout.tracks, sample.index
        for name, track in self.entries.items():
            if index >= len(track):
                continue
            if name not in tracks:
                found.notices[f"no track {name!r} inside"] += 1
                continue
            inner = tracks[name]
            if name == THUMB:
                is_same = track[index] == (sample.location + inner.offset, inner.nbytes)
            elif name == NAME:
                is_same = sample.name_bytes == sample.read_track(name).removesuffix(b"\0")
            else:
                stored = sample.target.to_bytes(TARGET_NBYTES, "little", signed=True)
                is_same = stored == sample.read_track(name)
            if not is_same:
                found.notices[f"another {name!r} inside"] += 1


def _is_same_picture(one: InnerTrack, two: InnerTrack) -> bool:
    return one._replace(name=two.name) == two


def _sample_message(error: BloscpackError, sample: Sample) -> str:
    """Return the message without the sample, which the caller puts before it."""
    return _message(error).removeprefix(f"sample {sample.index}: ")


def _message(error: BloscpackError) -> str:
    """Return the message without the path, which the report has."""
    return str(error.args[0]) if error.args else str(error)
