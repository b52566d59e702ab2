"""The samples of a dataset as files: as they are, or decoded as PNG or JPEG, and a list of them.

Stored names become names of files by `filename`, and are never used as they are; files are written
by `storage.folder`, which follows no link and lets no name lead out of the folder. The list has
what was stored beside the name of each file.

Pictures are decoded and encoded in threads and written in order. One that is damaged is told in the
report and in the list, and does not end the work.
"""

import csv
import io
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self, TextIO

from ..container.writer import Progress
from ..damage.report import Damage
from ..exceptions import BloscpackError
from ..media import image
from ..parallel.threads import map_ordered, resolve_nthreads
from ..storage import disk
from ..storage.folder import Folder
from .dataset import Dataset
from .filename import FileNames
from .mp4.format import INPUT
from .sample import Sample

FORMS = {"mp4": ".mp4", "png": ".png", "jpeg": ".jpg"}
"""What samples can be written as, with the suffixes of their files."""
LISTS = {"csv": "samples.csv", "json": "samples.json"}
"""Forms of the list of samples, with the names of their files."""
FIELDS = "index", "file", "name", "target", "error"

# How long a stored byte takes that is decoded, and encoded again, next to one that is copied.
_CODING_COST = 100


@dataclass(slots=True)
class ExtractReport:
    """What was extracted.

    Attributes
    ----------
    nfiles : int
        Files with samples that were written.
    nbytes : int
        Of those.
    nrenamed : int
        How many of them have another name than was stored, but for the suffix.
    damage : list of Damage
        Samples that could not be, and names and targets that could not be read.
    """

    nfiles: int = 0
    nbytes: int = 0
    nrenamed: int = 0
    damage: list[Damage] = field(default_factory=list)


def extract(
    dataset: Dataset,
    folder: str | os.PathLike[str],
    *,
    form: str = "mp4",
    track: str = INPUT,
    quality: int = 95,
    listing: str | None = "csv",
    overwrite: bool = False,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> ExtractReport:
    """Write the samples of a dataset, or of a view of one, into files.

    Parameters
    ----------
    dataset : Dataset
        Where they are from.
    folder : str or PathLike
        Where the files go; made if it is not there. It must be empty.
    form : {"mp4", "png", "jpeg"}, default "mp4"
        The samples byte for byte, each an mp4 of its own; or their pictures, exactly as they are
        decoded, or encoded anew, which loses detail.
    track : str, default "bzna_input"
        Of PNG and JPEG: which picture, ``"bzna_thumb"`` for the thumbnail.
    quality : int, default 95
        Of JPEG, 1 to 100.
    listing : {"csv", "json"} or None, default "csv"
        Also write ``samples.csv`` or ``samples.json``: for each sample its number, file, stored
        name and target (-1 where there is none).
    overwrite : bool, default False
        Whether the folder may have files, of which those with the same names are replaced.
    nthreads : int, optional
        Threads that decode and encode; as many as there are processors, at most 8, by default.
    progress : callable, optional
        Called with (samples done, samples in all).

    Returns
    -------
    ExtractReport
        What was written, and what is missing.

    Raises
    ------
    ValueError
        There is no such form, or the quality is out of range.
    FileExistsError
        The folder has files and not `overwrite`, or a link is in the place of a folder.
    FormatError
        It is not known where the samples lie.
    OSError
        A file cannot be written.
    ImportError
        PyAV, Pillow (PNG) or simplejpeg (JPEG) is missing.

    Notes
    -----
    Files have the names that were stored, with folders, as far as these are names for files on all
    systems and not out of the folder: see `filename.FileNames`. Samples without a name are called
    by their number.
    """
    if form not in FORMS or (listing is not None and listing not in LISTS):
        raise ValueError(
            f"form must be one of {', '.join(FORMS)} and listing of {', '.join(LISTS)}, not "
            f"{form!r} and {listing!r}"
        )
    if not 1 <= quality <= 100:
        raise ValueError(f"quality must be 1 to 100, not {quality}")
    report = ExtractReport()
    labels = _Labels(dataset, report)
    names = FileNames([FORMS[form]], LISTS.values())
    target = Folder(folder, overwrite=overwrite)
    content = partial(_content, _coder(form, track, quality))
    _, sizes = dataset.tracks[INPUT].extents(slice(None))
    work = len(dataset) * int(sizes.mean() if len(sizes) else 0)
    threads = resolve_nthreads(nthreads, work * (1 if form == "mp4" else _CODING_COST))
    with Listing(target, listing) as lines:
        samples = map_ordered(content, dataset.samples(), threads)
        for done, (sample, data, error) in enumerate(samples, 1):
            name, label = labels.of(sample)
            entry: dict[str, Any] = {"index": sample.index, "file": None}
            entry |= {"name": name, "target": label, "error": None}
            if error is None:
                entry["file"] = file = names.add(name, sample.index, FORMS[form])
                target.write(file, data)
                report.nfiles += 1
                report.nbytes += len(data)
                report.nrenamed += not _is_kept(file, name)
            else:
                entry["error"] = text = _told(error)
                report.damage.append(Damage(text, sample.index, frames=(0, 1)))
            lines.add(entry)
            if progress is not None:
                progress(done, len(dataset))
    return report


_Coder = Callable[[Sample], bytes]


def _coder(form: str, track: str, quality: int) -> _Coder:
    """Return what makes the content of a file of a sample."""
    if form == "png":
        return lambda sample: image.encode_png(sample.decode(track))
    if form == "jpeg":
        return lambda sample: image.encode_jpeg(sample.decode(track), quality=quality)
    return lambda sample: sample.data


def _content(coder: _Coder, sample: Sample) -> tuple[Sample, bytes, BloscpackError | None]:
    try:
        return sample, coder(sample), None
    except BloscpackError as err:
        return sample, b"", err


def _told(error: BloscpackError) -> str:
    """Return a message without the path."""
    return str(error.args[0]) if error.args else str(error)


def _is_kept(file: str, name: str | None) -> bool:
    """Return whether a file has the name that was stored, but for the suffix."""
    stem = file.rpartition(".")[0]
    return name is not None and (name == stem or name.rpartition(".")[0] == stem)


class _Labels:
    """Names and targets; where they cannot be read, that is told once and there are none."""

    def __init__(self, dataset: Dataset, report: ExtractReport) -> None:
        self._has = {}
        for what in ("names", "targets"):
            try:
                getattr(dataset, what)
                self._has[what] = True
            except BloscpackError as err:
                report.damage.append(Damage(_told(err)))
                self._has[what] = False

    def of(self, sample: Sample) -> tuple[str | None, int]:
        """Return name and target of a sample."""
        name = sample.name if self._has["names"] else None
        return name, sample.target if self._has["targets"] else -1


class Listing:
    """The file with a line for each sample; a context manager.

    Parameters
    ----------
    folder : Folder
        Where it goes.
    form : {"csv", "json"} or None
        Without one nothing is written.
    """

    def __init__(self, folder: Folder, form: str | None) -> None:
        self._form = form
        self._begun = False
        self._stream: TextIO | None = None
        if form is not None:
            self._path = folder.path(LISTS[form])
            fd = folder.create(LISTS[form])
            self._stream = os.fdopen(fd, "w", encoding="utf-8", newline="")

    def __enter__(self) -> Self:
        if self._form == "csv":
            self._write_row(FIELDS)
        return self

    def add(self, entry: dict[str, Any]) -> None:
        """Add a line."""
        if self._form == "csv":
            self._write_row(entry.values())
        else:
            self._write((",\n" if self._begun else "[\n") + json.dumps(entry))
        self._begun = True

    def _write_row(self, values: Iterable[Any]) -> None:
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(values)
        self._write(line.getvalue())

    def _write(self, text: str) -> None:
        if self._stream is not None:
            with disk.naming(self._path):
                self._stream.write(text)

    def __exit__(self, *exc: object) -> None:
        if self._stream is None:
            return
        with disk.naming(self._path), self._stream:  # closing it writes what is left
            if self._form == "json":
                self._write("\n]\n" if self._begun else "[]\n")
