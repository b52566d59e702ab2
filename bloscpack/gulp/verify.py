"""Verification of a Gulp directory, even one that cannot be opened.

Files are paired by name and every index is parsed. Every record must lie within its data file and
start as a JPEG; with ``decode=True`` every frame is decoded. One problem does not hide others.
"""

import os
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from ..plugin import (
    BloscpackError,
    ByteSource,
    Damage,
    FormatError,
    ListedFolder,
    Progress,
    Report,
    map_ordered,
    message_of,
    not_gulp,
    resolve_nthreads,
)
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


@dataclass(frozen=True, slots=True)
class FileDamage(Damage):
    """Fault of a file of a directory."""

    file: str = ""  # name of the file

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"


@dataclass(frozen=True, slots=True, repr=False)
class DirectoryReport(Report):
    """Result of `verify`; `nchunks` counts pairs of files, `nbytes` the bytes of the data files."""

    # Number of items and frames that could be counted.
    nitems: int = 0
    nframes: int = 0
    meta_nbytes: int = 0  # total size of the indices


def verify(
    folder: str | os.PathLike[str] | ListedFolder,
    *,
    records: bool = True,
    decode: bool = False,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> DirectoryReport:
    """Verify a Gulp directory, without changing it.

    `records` checks that each record starts as a JPEG, `decode` decodes every frame. `progress` is
    called with the number of data bytes verified and their total.
    """
    listed = folder if isinstance(folder, ListedFolder) else ListedFolder(folder)
    names = sorted(listed.names)
    is_ingesting = FOLDER in names
    damage: list[Damage] = []
    chunks = [_Chunk(listed, data, meta, damage) for data, meta in pairs_of(names, damage)]
    total, done, meta_nbytes = sum(chunk.nbytes for chunk in chunks), 0, 0
    owners: dict[str, str] = {}
    for chunk in chunks:
        chunk.verify_index(owners)
        if chunk.verify_size() and (records or decode):
            chunk.verify_records(decode=decode, nthreads=nthreads)
        meta_nbytes += chunk.meta_nbytes
        done += chunk.nbytes
        if progress is not None:
            progress(done, total)
    if not chunks and not damage and not is_ingesting:
        raise not_gulp(names).at(path=listed.name)
    return DirectoryReport(
        listed.name,
        len(chunks),
        total,
        damage,
        notices=["an ingest is at work here, or was interrupted"] if is_ingesting else [],
        nitems=sum(chunk.nitems for chunk in chunks),
        nframes=sum(chunk.nframes for chunk in chunks),
        meta_nbytes=meta_nbytes,
    )


def pairs_of(names: list[str], damage: list[Damage]) -> Iterator[tuple[str, str]]:
    """Yield the data file and index names of each chunk; report files without a partner."""

    def wrong(name: str, message: str) -> None:
        damage.append(FileDamage(message, file=name))

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


class _Chunk:
    """Verification of one chunk, a data file and its index; faults are added to `damage`."""

    def __init__(self, folder: ListedFolder, data: str, meta: str, damage: list[Damage]) -> None:
        self._folder = folder
        self._data = data
        self._meta = meta
        self._damage = damage
        with closing(folder.open(data)) as source:
            self.nbytes = source.size()
        self.meta_nbytes = 0
        self.nitems = self.nframes = 0
        self._infos: list[tuple[str, int, ImgInfo]] = []
        self._is_read = False
        self._nreported: dict[str, int] = {}

    def _wrong(self, name: str, message: str, **where: Any) -> None:
        nreported = self._nreported[name] = self._nreported.get(name, 0) + 1
        if nreported == _MAX_REPORTED + 1:
            message = "further problems of this kind"
        if nreported <= _MAX_REPORTED + 1:
            self._damage.append(FileDamage(message, file=name, **where))

    def verify_index(self, owners: dict[str, str]) -> None:
        """Parse the index, and add its ids to `owners`."""
        try:
            with closing(self._folder.open(self._meta)) as source:
                self.meta_nbytes = source.size()
                check_meta_nbytes(self.meta_nbytes)
                items = load_meta(bytes(source.read_at(0, self.meta_nbytes)))
        except BloscpackError as err:
            self._wrong(self._meta, message_of(err))
            return
        if not isinstance(items, dict):
            self._wrong(self._meta, "the index is not a JSON object")
            return
        self._is_read = True
        for id_, item in items.items():
            self.nitems += 1
            if id_ in owners:
                self._wrong(self._meta, f"item {id_!r:.80} is in {owners[id_]} too")
            owners.setdefault(id_, self._folder.path(self._meta))
            self._verify_item(id_, item)

    def _verify_item(self, id_: str, item: Any) -> None:
        triplets = item.get("frame_info") if isinstance(item, dict) else None
        entries = item.get("meta_data") if isinstance(item, dict) else None
        if not isinstance(triplets, list):
            self._wrong(self._meta, f"item {id_!r:.80} has no list frame_info")
            return
        if not (isinstance(entries, list) and entries and isinstance(entries[0], dict)):
            self._wrong(self._meta, f"item {id_!r:.80} has no metadata")
        for number, triplet in enumerate(triplets):
            self.nframes += 1
            try:
                self._infos.append((id_, number, frame_info(triplet)))
            except FormatError as err:
                self._wrong(self._meta, f"item {id_!r:.80}, frame {number}: {message_of(err)}")

    def verify_size(self) -> bool:
        """Compare the size of the data file with the index; return whether the index is usable."""
        if not self._is_read:
            return False
        end = max((info.loc + info.length for _, _, info in self._infos), default=0)
        if end > self.nbytes:
            self._wrong(self._data, f"it has {self.nbytes} bytes, the index goes to {end}")
        elif end < self.nbytes:
            self._wrong(self._data, f"{self.nbytes - end} bytes after the last record, at {end}")
        return True

    def verify_records(self, *, decode: bool, nthreads: int | None) -> None:
        """Verify the records in the data file."""
        with closing(self._folder.open(self._data)) as source:

            def verify_record(place: tuple[str, int, ImgInfo]) -> str | None:
                return _record_problem(source, place[2], self.nbytes, decode=decode)

            threads = resolve_nthreads(nthreads, 100 * self.nbytes if decode else 0)
            problems = map_ordered(verify_record, self._infos, threads)
            for (id_, number, _), problem in zip(self._infos, problems, strict=True):
                if problem is not None:
                    message = f"item {id_!r:.80}, frame {number}: {problem}"
                    self._wrong(self._data, message, clip=id_, frames=(number, number + 1))


def _record_problem(source: ByteSource, info: ImgInfo, size: int, *, decode: bool) -> str | None:
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
            return message_of(err)
    return None
