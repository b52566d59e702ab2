"""Recovery of a dataset: a new one of the samples that can be parsed, byte for byte."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, TypeVar

from ..plugin import (
    BloscpackError,
    Damage,
    Findings,
    FormatError,
    Path,
    Progress,
    Report,
    damage_of,
    message_of,
)
from .dataset import Dataset
from .dataset import open as open_dataset
from .mp4.format import INPUT, NAME, TARGET, TARGET_NBYTES
from .sample import Sample
from .writer import Writer

T = TypeVar("T")


def recover_dataset(
    source: Any,
    dst: Path | IO[bytes],
    *,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Write a new dataset with every sample of a damaged one that can be parsed.

    Pictures are not decoded. If the targets or names of the dataset are damaged, those inside the
    samples are taken. A split keeps its samples that are left. Notices name the tracks of other
    programs, which are not copied. `progress` is called with (samples done, samples in total).

    Raises
    ------
    FormatError
        The movie box is damaged, or no sample can be saved; `dst` is not changed.
    """
    found = Findings()
    with open_dataset(source, nthreads=nthreads) as dataset:
        entries = _Entries(dataset, found)
        nbytes = int(dataset.tracks[INPUT].extents(slice(None))[1].sum())
        whole = [sample.index for sample in dataset.samples() if _is_whole(sample, found)]
        if not whole and len(dataset):
            raise FormatError("no whole sample was found: nothing can be saved")
        splits = {name: _left(span, whole) for name, span in entries.splits.items()}
        with Writer(dst, splits=splits or None, overwrite=True) as writer:
            for sample in dataset.samples(whole):
                writer.add_encoded(sample.data, entries.target(sample), entries.name(sample))
                if progress is not None:
                    progress(len(writer), len(whole))
        report = found.report("sample", dataset.name, len(dataset), nbytes, saved=len(whole))
        report.notices.extend(f"{what} is not copied" for what in dataset._content.other_tracks)
        return report


def _is_whole(sample: Sample, found: Findings) -> bool:
    """Return whether a sample can be parsed, and add the damage if not."""
    try:
        if INPUT not in sample.layout.tracks:
            raise FormatError(f"sample {sample.index}: no track {INPUT!r}")
    except BloscpackError as err:
        end = sample.location + sample.size
        found.add(Damage(message_of(err), sample.index, sample.location, end, frames=(0, 1)))
        return False
    return True


def _left(span: range, whole: Sequence[int]) -> tuple[int, int]:
    """Return the ordinals in the new dataset of the samples of a split that are left."""
    return bisect_left(whole, span.start), bisect_left(whole, span.stop)


class _Entries:
    """Targets, names and splits of a dataset; those that are damaged are found in its samples."""

    def __init__(self, dataset: Dataset, found: Findings) -> None:
        def readable(read: Callable[[], T], otherwise: T, loss: str) -> T:
            try:
                return read()
            except FormatError as err:
                found.add(Damage(f"{message_of(err)}; {loss}", None, damage_of(err).offset))
                return otherwise

        inside = "those inside the samples are taken"
        self._has_targets = readable(lambda: len(dataset.targets) >= 0, False, inside)
        self._has_names = readable(lambda: len(dataset.names) >= 0, False, inside)
        self.splits: Mapping[str, range] = readable(
            lambda: dataset.splits, {}, "there are no splits"
        )

    def target(self, sample: Sample) -> int | None:
        """Return the target of a sample, or None."""
        if self._has_targets:
            return None if sample.target == -1 else sample.target
        data = _track(sample, TARGET)
        return None if len(data) != TARGET_NBYTES else int.from_bytes(data, "little", signed=True)

    def name(self, sample: Sample) -> bytes | None:
        """Return the name of a sample, or None."""
        if self._has_names:
            return sample.name_bytes
        return _track(sample, NAME).removesuffix(b"\0") or None


def _track(sample: Sample, name: str) -> bytes:
    with suppress(BloscpackError):  # it has none, or another fault, which is reported with it
        return sample.read_track(name)
    return b""
