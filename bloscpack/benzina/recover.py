"""Recovery of a dataset: a new one of the samples that can be parsed, byte for byte.

Without a whole movie box, samples are found in the data: each is an mp4 that begins with ``ftyp``.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import IO, Any, TypeVar

from ..plugin import (
    BloscpackError,
    ByteSource,
    Damage,
    Findings,
    FormatError,
    Path,
    Progress,
    Report,
    closed_on_error,
    damage_of,
    message_of,
    open_source,
)
from .dataset import Dataset
from .dataset import open as open_dataset
from .mp4.bmff import LARGE_HEADER_NBYTES, Window, unpack_header
from .mp4.format import INPUT, NAME, TARGET, TARGET_NBYTES
from .mp4.movie import unpack_movie
from .mp4.samplelayout import parse_sample
from .sample import Sample
from .writer import Writer

T = TypeVar("T")

# End of a file, of which a part may be missing, for the sizes of its outermost boxes.
_ANY_END = 1 << 63


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

    If the movie box is missing or damaged, the samples in the data are taken, without splits.

    Raises
    ------
    FormatError
        No sample can be saved; `dst` is not changed.
    """
    found = Findings()
    opened = open_source(source)
    with closed_on_error(opened, opened.name):
        try:
            unpack_movie(Window(opened.read_at), opened.size())
        except FormatError as err:
            return _recover_loose(opened, dst, err)
    with open_dataset(opened, nthreads=nthreads) as dataset:
        entries = _Entries(dataset, found)
        nbytes = int(dataset.tracks[INPUT].extents(slice(None))[1].sum())
        whole = [sample.index for sample in dataset.samples() if _is_whole(sample, found)]
        if not whole and len(dataset):
            raise FormatError("no whole sample was found: nothing can be saved")
        splits = {name: _left(span, whole) for name, span in entries.splits.items()}
        with Writer(dst, splits=splits or None, overwrite=True) as writer:
            for sample in dataset.samples(whole):
                name = _storable(entries.name(sample), sample.index, found)
                writer.add_encoded(sample.data, entries.target(sample), name)
                if progress is not None:
                    progress(len(writer), len(whole))
        report = found.report("sample", dataset.name, len(dataset), nbytes, saved=len(whole))
        report.notices.extend(f"{what} is not copied" for what in dataset._content.other_tracks)
        return report


def _recover_loose(source: ByteSource, dst: Path | IO[bytes], fault: FormatError) -> Report:
    """Write a dataset of the samples in the data of a file without a whole movie box."""
    found = Findings()
    what = f"{message_of(fault)}; samples are found in the data, without splits"
    found.add(Damage(what, None, fault.offset))
    count = nbytes = 0
    with closing(source), Writer(dst, overwrite=True) as writer:
        for offset, data in _loose_samples(source):
            count, nbytes = count + 1, nbytes + len(data)
            try:
                tracks = parse_sample(data).tracks
                kept = {k: data[at.offset : at.offset + at.nbytes] for k, at in tracks.items()}
                name = _storable(_name_in(kept.get(NAME, b"")), count - 1, found)
                writer.add_encoded(data, _target_in(kept.get(TARGET, b"")), name)
            except BloscpackError as err:
                end = offset + len(data)
                found.add(Damage(message_of(err), count - 1, offset, end, frames=(0, 1)))
        if not len(writer):
            raise fault
    return found.report("sample", source.name, count, nbytes, saved=len(writer))


def _loose_samples(source: ByteSource) -> Iterator[tuple[int, bytes]]:
    """Yield the offsets and bytes of the samples in ``mdat``, each from ``ftyp`` to the next."""
    read, size = Window(source.read_at), source.size()

    def header_at(at: int, end: int) -> Any:
        with suppress(FormatError):
            view = read(at, max(0, min(LARGE_HEADER_NBYTES, end - at, size - at)))
            header = unpack_header(view, 0, at, end, to_end=end == _ANY_END)
            return header if header.kind.isalnum() else None  # targets follow the samples

    box = header_at(0, _ANY_END)
    while box is not None and box.kind != b"mdat":
        box = header_at(box.end, _ANY_END)
    start, at = None, size if box is None else box.payload_offset
    end = size if box is None else min(box.end, size)
    while at <= end:
        box = header_at(at, end)
        if (box is None or box.kind == b"ftyp") and start is not None:
            yield start, bytes(source.read_at(start, at - start))
        if box is None:
            return
        start = at if box.kind == b"ftyp" else start
        at = box.end


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


def _storable(name: bytes | None, index: int, found: Findings) -> bytes | None:
    """Return a name; None, with a fault, if a damaged size made it end behind its NUL."""
    if name is None or b"\0" not in name:
        return name
    found.add(Damage(f"sample {index}: name {name!r:.80} contains NUL, and is not saved", index))
    return None


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
        return _target_in(_track(sample, TARGET))

    def name(self, sample: Sample) -> bytes | None:
        """Return the name of a sample, or None."""
        if self._has_names:
            return sample.name_bytes
        return _name_in(_track(sample, NAME))


def _target_in(data: bytes) -> int | None:
    """Return the target in the track of a sample, or None."""
    return int.from_bytes(data, "little", signed=True) if len(data) == TARGET_NBYTES else None


def _name_in(data: bytes) -> bytes | None:
    """Return the name in the track of a sample, or None."""
    return data.removesuffix(b"\0") or None


def _track(sample: Sample, name: str) -> bytes:
    with suppress(BloscpackError):  # it has none, or another fault, which is reported with it
        return sample.read_track(name)
    return b""
