"""Extract samples as files: the mp4s as stored, or decoded to PNG or JPEG, with a list of them.

`media.filename` turns stored names into safe file names. `storage.folder.outputfolder` writes the
files; it follows no link and lets no name lead out of the folder. The list has the stored name
beside the file name.

Threads decode and encode; files are written in order. A damaged sample is reported and listed, and
extraction goes on.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..plugin import (
    LISTS,
    BloscpackError,
    Damage,
    FileNames,
    Folder,
    Listing,
    ProgressOption,
    as_progress,
    image,
    map_ordered,
    message_of,
    resolve_nthreads,
)
from .dataset import Dataset
from .mp4.format import INPUT
from .sample import Sample

FORMS = {"mp4": ".mp4", "png": ".png", "jpeg": ".jpg"}
"""Output formats, with the suffixes of their files."""
FIELDS = "index", "file", "name", "target", "error"

# Cost of decoding and re-encoding a stored byte, relative to copying it.
_CODING_COST = 100


@dataclass(slots=True)
class ExtractReport:
    """Result of `extract`.

    Attributes
    ----------
    nfiles : int
        Number of sample files written.
    nbytes : int
        Their total size in bytes.
    nrenamed : int
        Number of files whose name differs from the stored one by more than the suffix.
    damage : list of Damage
        Samples that could not be extracted, and names and targets that could not be read.
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
    progress: ProgressOption = None,
) -> ExtractReport:
    """Write the samples of a dataset, or of a view of one, into files.

    Parameters
    ----------
    dataset : Dataset
        The dataset or view to extract.
    folder : str or PathLike
        Where the files go; created if it does not exist. It must be empty.
    form : {"mp4", "png", "jpeg"}, default "mp4"
        "mp4" copies the samples byte for byte. "png" stores the decoded pictures without loss;
        "jpeg" encodes them again, which loses detail.
    track : str, default "bzna_input"
        For PNG and JPEG: the picture to extract, ``"bzna_thumb"`` for the thumbnail.
    quality : int, default 95
        For JPEG, 1 to 100.
    listing : {"csv", "json"} or None, default "csv"
        Also write ``samples.csv`` or ``samples.json``: for each sample its number, file, stored
        name and target (-1 if it is missing).
    overwrite : bool, default False
        Allow a folder with files in it, and replace those with the same names.
    nthreads : int, optional
        Number of threads that decode and encode; by default one per processor, at most 8.
    progress : bool, callable or object with ``update``, optional
        True draws a bar; a function is called with (samples done, samples in total).

    Returns
    -------
    ExtractReport
        Number and size of the files, and the samples that are missing.

    Raises
    ------
    ValueError
        The form is not one of those above, or the quality is out of range.
    FileExistsError
        The folder has files and `overwrite` is False, or a link is in the place of a folder.
    FormatError
        The table that locates the samples is damaged.
    OSError
        A file cannot be written.
    ImportError
        PyAV, Pillow (PNG) or simplejpeg (JPEG) is missing.

    Notes
    -----
    Files get the stored names, including folders, changed where a name is not valid on every
    system or would lead out of the folder: see `media.filename.FileNames`. Samples without a
    name get their number.
    """
    if form not in FORMS or (listing is not None and listing not in LISTS):
        raise ValueError(
            f"form must be one of {', '.join(FORMS)} and listing of {', '.join(LISTS)}, not "
            f"{form!r} and {listing!r}"
        )
    image.check_quality(quality)
    report = ExtractReport()
    labels = _Labels(dataset, report)
    names = FileNames([FORMS[form]], LISTS.values())
    target = Folder(folder, overwrite=overwrite)
    content = partial(_content, _coder(form, track, quality))
    _, sizes = dataset.tracks[INPUT].extents(slice(None))
    work = len(dataset) * int(sizes.mean() if len(sizes) else 0)
    threads = resolve_nthreads(nthreads, work * (1 if form == "mp4" else _CODING_COST))
    shown = as_progress(progress, unit="samples")
    with Listing(target, listing, FIELDS) as lines:
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
                report.nrenamed += not _has_stored_name(file, name)
            else:
                entry["error"] = text = message_of(error)
                report.damage.append(Damage(text, sample.index, frames=(0, 1)))
            lines.add(entry)
            if shown is not None:
                shown(done, len(dataset))
    return report


_Coder = Callable[[Sample], bytes]


def _coder(form: str, track: str, quality: int) -> _Coder:
    """Return the function that makes the file content of a sample."""
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


def _has_stored_name(file: str, name: str | None) -> bool:
    """Return whether a file has the stored name, apart from the suffix."""
    stem = file.rpartition(".")[0]
    return name is not None and (name == stem or name.rpartition(".")[0] == stem)


class _Labels:
    """Names and targets of samples; if one kind cannot be read, report it once and omit it."""

    def __init__(self, dataset: Dataset, report: ExtractReport) -> None:
        self._has = {}
        for what in ("names", "targets"):
            try:
                getattr(dataset, what)
                self._has[what] = True
            except BloscpackError as err:
                report.damage.append(Damage(message_of(err)))
                self._has[what] = False

    def of(self, sample: Sample) -> tuple[str | None, int]:
        """Return the name and the target of a sample."""
        name = sample.name if self._has["names"] else None
        return name, sample.target if self._has["targets"] else -1
