"""Verification of a Gulp directory, even one that cannot be opened.

Files are paired by name and every index is parsed. Every record must lie within its data file and
start as a JPEG; with ``decode=True`` every frame is decoded. One problem does not hide others.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..exceptions import BloscpackError, FormatError
from ..format.filekind import not_gulp
from ..parallel.threads import map_ordered, resolve_nthreads
from ..storage.file import FileSource
from .chunk.format import (
    DATA_PREFIX,
    DATA_SUFFIX,
    META_PREFIX,
    META_SUFFIX,
    ImgInfo,
    check_meta_nbytes,
    frame_info,
    load_meta,
)
from .ingest.ingestlog import FOLDER
from .utils import jpeg_bytes_to_img

_NUMBER = re.compile(r"\d+")
_JPEG_START = b"\xff\xd8"
# Number of problems per file that are reported one by one.
_MAX_REPORTED = 20


class Problem(NamedTuple):
    """A problem found in a file.

    Attributes
    ----------
    path : str
        Path of the file.
    message : str
        Description of the problem.
    """

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(slots=True)
class SanityReport:
    """Result of a verification.

    Attributes
    ----------
    chunks, items, frames : int
        Number of chunks, items and frames that could be counted.
    data_nbytes, meta_nbytes : int
        Total sizes of the data files and of the indices.
    problems : list of Problem
        Problems found.
    notices : list of str
        Remarks that are not problems.
    """

    chunks: int = 0
    items: int = 0
    frames: int = 0
    data_nbytes: int = 0
    meta_nbytes: int = 0
    problems: list[Problem] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.problems


def check_directory(
    folder: str | os.PathLike[str],
    *,
    records: bool = True,
    decode: bool = False,
    nthreads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SanityReport:
    """Verify a Gulp directory, without changing it.

    Parameters
    ----------
    folder : str or PathLike
        The directory.
    records : bool, optional
        Check that each record starts as a JPEG.
    decode : bool, optional
        Decode every frame.
    nthreads : int, optional
        Decoding threads.
    progress : callable, optional
        Called with the number of data bytes checked and their total.

    Returns
    -------
    SanityReport
        Problems and counts.

    Raises
    ------
    NotBloscpackError
        The folder has no file of a Gulp directory.
    OSError
        The folder, or a file in it, cannot be read.
    """
    report = SanityReport()
    root = os.fsdecode(folder)
    names = sorted(os.listdir(root))
    if FOLDER in names:
        report.notices.append(f"{root}: an ingest is at work here, or was interrupted")
    owners: dict[str, str] = {}
    chunks = [
        (os.path.join(root, a), os.path.join(root, b)) for a, b in _pairs(root, names, report)
    ]
    sizes = [os.stat(data).st_size for data, _ in chunks]
    done = 0
    for (data, meta), size in zip(chunks, sizes, strict=True):
        check = _ChunkCheck(data, meta, size, report)
        check.index(owners)
        if check.sizes() and (records or decode):
            check.records(decode=decode, nthreads=nthreads)
        report.chunks += 1
        report.data_nbytes += size
        report.meta_nbytes += os.stat(meta).st_size
        done += size
        if progress is not None:
            progress(done, sum(sizes))
    if not chunks and report.ok and FOLDER not in names:
        error = not_gulp(names)
        error.path = root
        raise error
    return report


def _pairs(root: str, names: list[str], report: SanityReport) -> Iterator[tuple[str, str]]:
    """Yield the data file and index names of each chunk; report files without a partner."""

    def wrong(name: str, message: str) -> None:
        report.problems.append(Problem(os.path.join(root, name), message))

    found: dict[str, dict[int, str]] = {}
    for prefix, suffix in ((DATA_PREFIX, DATA_SUFFIX), (META_PREFIX, META_SUFFIX)):
        by_number = found.setdefault(prefix, {})
        for name in names:
            if not (name.startswith(prefix) and name.endswith(suffix)):
                continue
            digits = _NUMBER.search(name)
            if digits is None:
                wrong(name, "a chunk needs a number in its name")
            elif (number := int(digits[0])) in by_number:
                wrong(name, f"{by_number[number]} is chunk {number} too")
            else:
                by_number[number] = name
    data, meta = found[DATA_PREFIX], found[META_PREFIX]
    for number in sorted(data.keys() | meta.keys()):
        if number not in meta:
            wrong(data[number], "it has no index: its writer was killed or is still running")
        elif number not in data:
            wrong(meta[number], "it has no data file")
        else:
            yield data[number], meta[number]


class _ChunkCheck:
    """Verification of one chunk; problems are added to the report."""

    def __init__(self, data: str, meta: str, size: int, report: SanityReport) -> None:
        self._data = data
        self._meta = meta
        self._size = size
        self._report = report
        self._infos: list[tuple[str, int, ImgInfo]] = []
        self._is_read = False
        self._nreported: dict[str, int] = {}

    def _wrong(self, path: str, message: str) -> None:
        nreported = self._nreported[path] = self._nreported.get(path, 0) + 1
        if nreported <= _MAX_REPORTED:
            self._report.problems.append(Problem(path, message))
        elif nreported == _MAX_REPORTED + 1:
            self._report.problems.append(Problem(path, "further problems of this kind"))

    def index(self, owners: dict[str, str]) -> None:
        """Parse the index, and add its ids to `owners`."""
        try:
            with open(self._meta, "rb") as file:
                check_meta_nbytes(os.fstat(file.fileno()).st_size)
                items = load_meta(file.read())
        except BloscpackError as err:
            self._wrong(self._meta, str(err.args[0]))
            return
        if not isinstance(items, dict):
            self._wrong(self._meta, "the index is not a JSON object")
            return
        self._is_read = True
        for id_, item in items.items():
            self._report.items += 1
            if id_ in owners:
                self._wrong(self._meta, f"item {id_!r:.80} is in {owners[id_]} too")
            owners.setdefault(id_, self._meta)
            self._item(id_, item)

    def _item(self, id_: str, item: Any) -> None:
        triplets = item.get("frame_info") if isinstance(item, dict) else None
        entries = item.get("meta_data") if isinstance(item, dict) else None
        if not isinstance(triplets, list):
            self._wrong(self._meta, f"item {id_!r:.80} has no list frame_info")
            return
        if not (isinstance(entries, list) and entries and isinstance(entries[0], dict)):
            self._wrong(self._meta, f"item {id_!r:.80} has no metadata")
        for number, triplet in enumerate(triplets):
            self._report.frames += 1
            try:
                self._infos.append((id_, number, frame_info(triplet)))
            except FormatError as err:
                self._wrong(self._meta, f"item {id_!r:.80}, frame {number}: {err.args[0]}")

    def sizes(self) -> bool:
        """Compare the size of the data file with the index; return whether the index is usable."""
        if not self._is_read:
            return False
        end = max((info.loc + info.length for _, _, info in self._infos), default=0)
        if end > self._size:
            self._wrong(self._data, f"it has {self._size} bytes, the index goes to {end}")
        elif end < self._size:
            self._wrong(self._data, f"{self._size - end} bytes after the last record, at {end}")
        return True

    def records(self, *, decode: bool, nthreads: int | None) -> None:
        """Verify the records in the data file."""
        with closing(FileSource(self._data)) as source:

            def check(place: tuple[str, int, ImgInfo]) -> str | None:
                id_, number, info = place
                problem = _record_problem(source, info, self._size, decode=decode)
                return problem and f"item {id_!r:.80}, frame {number}: {problem}"

            work = 100 * self._size if decode else 0
            for message in map_ordered(check, self._infos, resolve_nthreads(nthreads, work)):
                if message is not None:
                    self._wrong(self._data, message)


def _record_problem(source: FileSource, info: ImgInfo, size: int, *, decode: bool) -> str | None:
    """Return the problem of a record, or None."""
    if info.loc + info.length > size:
        return f"its record ends at byte {info.loc + info.length}, after the end of the file"
    nbytes = info.length - info.pad
    record = source.read_at(info.loc, nbytes if decode else min(nbytes, len(_JPEG_START)))
    if record[: len(_JPEG_START)] != _JPEG_START:
        return f"no JPEG at byte {info.loc}"
    if decode:
        try:
            jpeg_bytes_to_img(record)
        except BloscpackError as err:
            return str(err.args[0])
    return None
