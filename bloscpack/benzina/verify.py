"""Verify a dataset by reading all of it.

The place of each sample is compared with the file and with the other samples, and every sample is
parsed; with ``decode=True`` every picture is decoded. All faults are found, not only the first. A
sample that cannot be parsed is damage, even if it is only encrypted or stored in another file.
Things that are valid but unusual are notices: a name or thumbnail that differs from the one inside
the sample, or an unknown codec.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..plugin import (
    BloscpackError,
    Damage,
    Findings,
    FormatError,
    IntArray,
    Progress,
    ProgressOption,
    Report,
    UnsupportedError,
    WrongKindError,
    as_progress,
    damage_of,
    map_ordered,
    message_of,
    resolve_nthreads,
)
from .dataset import Dataset
from .dataset import open as open_dataset
from .mp4.format import INPUT, NAME, TARGET, TARGET_NBYTES, THUMB
from .mp4.samplelayout import InnerTrack
from .mp4.track import DatasetTrack
from .sample import Sample

# Number of consecutive samples in one thread's task.
_BATCH = 64
# Cost of decoding a stored byte, relative to reading it.
_DECODING_COST = 50


def verify(
    path: Any,
    *,
    decode: bool = False,
    nthreads: int | None = None,
    progress: ProgressOption = None,
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
    progress : bool, callable or object with ``update``, optional
        True draws a bar; a function is called with (bytes of samples done, bytes of samples in
        total).

    Returns
    -------
    Report
        `nchunks` counts samples and `nbytes` their bytes, as recorded in the file. In `damage`,
        `index` is the ordinal of a sample; only the first 1000 faults are listed.

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
        return Report(err.path, 0, 0, [damage_of(err)])
    with dataset:
        return _Verification(dataset).run(nthreads, as_progress(progress), decode=decode)


class _Verification:
    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._found = Findings()
        self._samples = _SampleVerifier(dataset.tracks)

    def run(self, nthreads: int | None, progress: Progress | None, *, decode: bool) -> Report:
        """Verify everything."""
        dataset, nbytes = self._dataset, 0
        self._verify_entries()
        try:
            starts, sizes = dataset.tracks[INPUT].extents(slice(None))
            nbytes = int(sizes.sum())
        except FormatError as err:
            self._found.add(damage_of(err))
        else:
            self._verify_places(starts, sizes)
            self._verify_samples(starts, sizes, nthreads, progress, decode=decode)
        return self._found.report("sample", dataset.name, len(dataset), nbytes)

    def _verify_entries(self) -> None:
        """Verify targets, names and splits, each of which is read as a whole."""
        for name, track in (("targets", TARGET), ("names", NAME), ("splits", "")):
            try:
                getattr(self._dataset, name)
            except FormatError as err:
                self._found.add(damage_of(err))
                self._samples.entries.pop(track, None)

    def _verify_places(self, starts: IntArray, sizes: IntArray) -> None:
        """Verify that samples do not lie beyond the file, in its index or over each other."""
        size = self._dataset.nbytes
        moov = self._dataset.movie.moov
        ends = starts + sizes
        order = np.argsort(starts, kind="stable")
        # Largest end of the samples that begin earlier.
        reached = np.zeros(len(order), np.int64)
        np.maximum.accumulate(ends[order][:-1], out=reached[1:])
        is_shared = np.zeros(len(order), np.bool_)
        is_shared[1:] = (np.diff(starts[order]) == 0) & (np.diff(ends[order]) == 0)
        if is_shared.any():
            self._found.note("the bytes are those of another sample", int(is_shared.sum()))
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
                place = starts.item(index), ends.item(index)
                damage = Damage(f"sample {index}: {what}", index, *place, frames=(0, 1))
                self._found.add(self._with_id(damage))

    def _verify_samples(
        self,
        starts: IntArray,
        sizes: IntArray,
        nthreads: int | None,
        progress: Progress | None,
        *,
        decode: bool,
    ) -> None:
        """Parse every sample, in threads."""
        total, done = int(sizes.sum()), 0
        is_there = starts + sizes <= self._dataset.nbytes

        def verify_batch(first: int) -> Findings:
            picked = (first + np.flatnonzero(is_there[first : first + _BATCH])).tolist()
            found = Findings()
            for sample in self._dataset.samples(picked):
                self._samples.verify(sample, found, decode=decode)
            return found

        work = int(sizes[is_there].sum()) * (_DECODING_COST if decode else 1)
        threads = resolve_nthreads(nthreads, work)
        firsts = range(0, len(sizes), _BATCH)
        for first, found in zip(firsts, map_ordered(verify_batch, firsts, threads), strict=True):
            found.damage = [self._with_id(damage) for damage in found.damage]
            self._found.merge(found)
            done += int(sizes[first : first + _BATCH].sum())
            if progress is not None:
                progress(done, total)

    def _with_id(self, damage: Damage) -> Damage:
        """Return the damage of a sample with the id of the sample."""
        try:
            return replace(damage, clip=self._dataset.keys()[damage.index or 0])
        except FormatError:  # of the names, already reported
            return damage


class _SampleVerifier:
    """Verification of single samples against the undamaged tracks of the dataset, by name."""

    def __init__(self, tracks: Mapping[str, DatasetTrack]) -> None:
        self.entries = {name: tracks[name] for name in (TARGET, NAME, THUMB) if name in tracks}

    def verify(self, sample: Sample, found: Findings, *, decode: bool) -> None:
        """Verify a sample and add its faults to `found`."""
        try:
            sample.layout  # noqa: B018 - parses the sample
        except BloscpackError as err:
            # None of its tracks can be read, even if the sample is valid but not supported.
            found.add(_sample_damage(sample, err))
            return
        for error in self._errors(sample, found, decode=decode):
            if isinstance(error, UnsupportedError):
                found.note(_sample_message(sample, error))
            else:
                found.add(_sample_damage(sample, error))

    def _errors(self, sample: Sample, found: Findings, *, decode: bool) -> Iterator[BloscpackError]:
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

    def _compare(self, sample: Sample, found: Findings) -> None:
        """Compare a sample's own target, name and thumbnail with those of the dataset."""
        tracks, index = sample.layout.tracks, sample.index
        for name, track in self.entries.items():
            if index >= len(track):
                continue
            if name not in tracks:
                found.note(f"no track {name!r} inside")
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
                found.note(f"another {name!r} inside")


def _is_same_picture(one: InnerTrack, two: InnerTrack) -> bool:
    return one._replace(name=two.name) == two


def _sample_damage(sample: Sample, error: BloscpackError) -> Damage:
    start = sample.location
    what = f"sample {sample.index}: {_sample_message(sample, error)}"
    return Damage(what, sample.index, start, start + sample.size, frames=(0, 1))


def _sample_message(sample: Sample, error: BloscpackError) -> str:
    """Return the message without the number of the sample."""
    return message_of(error).removeprefix(f"sample {sample.index}: ")
