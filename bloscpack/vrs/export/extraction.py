"""Extraction of a recording to files: images, WAV, custom blocks, and a JSON line per record.

The files are in one folder per stream and named by record and block numbers. ``metadata.jsonl``
holds a line about the recording, then a line for each record with its metadata values and the names
of the files of its blocks. No name comes from the recording and no link is followed, so nothing is
written outside the folder.

Records are read and encoded in threads and written in order. A damaged record or block is
damage in the report and an ``error`` in its line; the other records are still extracted.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...plugin import (
    BloscpackError,
    BytesLike,
    Folder,
    Progress,
    UnsupportedError,
    disk,
    map_ordered,
    message_of,
    resolve_nthreads,
    text_list,
)
from ..block.audio import AudioFormat, AudioSpec
from ..block.pixels import ImageSpec
from ..block.wav import MAX_NBYTES, wav_header, wav_samples
from ..read.iteration import batches_of, iter_readable
from ..read.record import Block, Record
from ..recording import Recording
from ..sequence import RecordSequence
from ..verify import RecordDamage, record_damage, unreadable_record
from .documents import Document, block_document, record_entry, recording_document
from .imagefile import picture_of

KINDS = "image", "audio", "custom", "metadata"
"""Kinds of blocks that can be extracted; metadata go to ``metadata.jsonl``."""
METADATA_NAME = "metadata.jsonl"


@dataclass(slots=True)
class ExtractReport:
    """Result of an extraction.

    Attributes
    ----------
    nrecords : int
        Records that were read.
    nfiles : Counter
        Files written, by kind: ``"image"``, ``"audio"``, ``"custom"``, ``"metadata"``.
    nbytes : int
        Total size of the files.
    damage : list of RecordDamage
        Damaged records and blocks, which are missing from the files.
    nleft_out : int
        Blocks without a file that are not damaged: the recording does not say what they are, or
        WAV does not hold their samples. The metadata say which.
    """

    nrecords: int = 0
    nfiles: Counter[str] = field(default_factory=Counter)
    nbytes: int = 0
    damage: list[RecordDamage] = field(default_factory=list)
    nleft_out: int = 0


@dataclass(slots=True)
class _Part:
    """Bytes of a block: a whole file, or the next part of one."""

    kind: str
    block: int
    data: BytesLike
    suffix: str
    is_part: bool = False
    audio: AudioSpec | None = None


@dataclass(slots=True)
class _Extracted:
    """Files and metadata extracted from a record."""

    entry: Document
    stream: str
    parts: list[tuple[Document, _Part]] = field(default_factory=list)
    damage: list[RecordDamage] = field(default_factory=list)
    nleft_out: int = 0
    is_read: bool = True


def extract(
    recording: Recording,
    folder: str | os.PathLike[str],
    *,
    records: RecordSequence | None = None,
    kinds: Iterable[str] = KINDS,
    overwrite: bool = False,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> ExtractReport:
    """Write the content of records, by default of all, to files in `folder`.

    The folder is created if it does not exist. If it is not empty, `overwrite` must be set, which
    replaces files of the same names; a link in the place of a folder is refused. `kinds` of blocks
    are from `KINDS`. `progress` is called with (stored bytes of the records done, stored bytes of
    all). Raw images need Pillow.
    """
    wanted = set(text_list("kinds", kinds))
    if wanted - set(KINDS):
        raise ValueError(f"kind {min(wanted - set(KINDS))!r}: expected one of {', '.join(KINDS)}")
    chosen: RecordSequence = recording if records is None else records
    total = int(chosen.stored_nbytes.sum())
    report, done = ExtractReport(), 0
    target = _Files(Folder(folder, overwrite=overwrite), report)
    take = partial(_extract_records, kinds=wanted - {"metadata"})
    threads = resolve_nthreads(nthreads, total)
    try:
        if "metadata" in wanted:
            target.write_line(recording_document(recording))
        for stored, batch in map_ordered(take, batches_of(chosen), threads):
            for extracted in batch:
                target.add(extracted, with_line="metadata" in wanted)
            done += stored
            if progress is not None:
                progress(done, total)
    finally:
        try:
            target.finish()
        finally:
            target.close()
    return report


def _extract_records(records: RecordSequence, kinds: set[str]) -> tuple[int, list[_Extracted]]:
    found = []
    for place, record in iter_readable(records):
        if isinstance(record, BloscpackError):
            damage = unreadable_record(records, place, record)
            stream = damage.stream or ""
            entry = {"record": damage.record, "stream": stream, "error": damage.what}
            found.append(_Extracted(entry, stream, damage=[damage], is_read=False))
        else:
            found.append(_extract_record(record, kinds))
    return int(records.stored_nbytes.sum()), found


def _extract_record(record: Record, kinds: set[str]) -> _Extracted:
    entry = record_entry(record)
    extracted = _Extracted(entry, record.stream_id)
    try:
        blocks, entry["note"] = record.blocks, record.note
    except BloscpackError as err:  # the format is damaged
        extracted.damage.append(record_damage(record, err))
        entry["error"] = message_of(err)
        return extracted
    entry["blocks"] = []
    for number, block in enumerate(blocks):
        document = block_document(block)
        entry["blocks"].append(document)
        try:
            if block.kind == "metadata":
                block.values()
            elif block.kind in kinds and block.nbytes:
                # An empty block makes no file, as a format may list thousands of them at no cost.
                extracted.parts.append((document, _part_of(block, number)))
            elif block.kind == "unsupported" and kinds:
                extracted.nleft_out += 1
        except UnsupportedError as err:
            extracted.nleft_out += 1
            document["error"] = message_of(err)
        except BloscpackError as err:
            extracted.damage.append(record_damage(record, err, number))
            document["error"] = message_of(err)
    return extracted


def _part_of(block: Block, number: int) -> _Part:
    spec = block.spec
    if isinstance(spec, ImageSpec):
        return _Part("image", number, *picture_of(block.data, spec))
    if isinstance(spec, AudioSpec) and spec.audio_format == AudioFormat.PCM:
        wav_header(spec, 0)  # raises if WAV cannot hold the samples
        return _Part("audio", number, wav_samples(block.data, spec), ".wav", True, spec)
    return _Part(block.kind, number, block.data, ".bin")


class _AppendedFile:
    """A file that several records are appended to: WAV, or a stream of video."""

    def __init__(self, name: str, part: _Part) -> None:
        self.name = name
        self.key = _key_of(part)
        self.audio = part.audio
        self.start = 0  # of the parts, behind the header
        self.nbytes = 0
        self.identity = (0, 0)

    def can_append(self, part: _Part) -> bool:
        """Return whether the part can be appended to this file."""
        return self.key == _key_of(part) and (
            self.audio is None or self.nbytes + len(part.data) <= MAX_NBYTES
        )


def _key_of(part: _Part) -> tuple[Any, ...]:
    spec = part.audio
    if spec is None:
        return (part.suffix,)
    return spec.sample_format, spec.channel_count, spec.sample_rate


class _Files:
    def __init__(self, folder: Folder, report: ExtractReport) -> None:
        self._folder = folder
        self._report = report
        self._appended: dict[tuple[str, int], _AppendedFile] = {}
        self._counts: Counter[tuple[str, int]] = Counter()
        self._lines: Any = None

    def add(self, extracted: _Extracted, *, with_line: bool) -> None:
        """Write the parts of a record."""
        for document, part in extracted.parts:
            if part.is_part:
                self._append(extracted.stream, part, document)
            else:
                number = extracted.entry["record"]
                name = f"{extracted.stream}/{number:06d}-{part.block}{part.suffix}"
                self._write(name, part.data, part.kind)
                document["file"] = name
        if with_line:
            self.write_line(extracted.entry)
        self._report.damage += extracted.damage
        self._report.nleft_out += extracted.nleft_out
        self._report.nrecords += extracted.is_read

    def write_line(self, document: Document) -> None:
        """Append a line to the metadata."""
        if self._lines is None:
            self._lines = os.fdopen(self._folder.create(METADATA_NAME), "w", encoding="ascii")
            self._report.nfiles["metadata"] += 1
        text = json.dumps(document, allow_nan=False) + "\n"
        with disk.naming(self._folder.path(METADATA_NAME)):
            self._lines.write(text)
        self._report.nbytes += len(text)

    def _write(self, name: str, data: BytesLike, kind: str) -> None:
        self._folder.write(name, data)
        self._report.nfiles[kind] += 1
        self._report.nbytes += len(data)

    def _append(self, stream_id: str, part: _Part, document: Document) -> None:
        """Append a part to the file of its stream and block, or begin a new file."""
        key = stream_id, part.block
        file = self._appended.get(key)
        if file is None or not file.can_append(part):
            if file is not None:
                self._finish(file)
            name = f"{stream_id}/{part.kind}-{part.block}-{self._counts[key]}{part.suffix}"
            self._counts[key] += 1
            file = self._appended[key] = _AppendedFile(name, part)
            header = b"" if file.audio is None else wav_header(file.audio, 0)
            file.start = len(header)
            self._create(file, header, part.kind)
        self._write_at(file, file.start + file.nbytes, part.data)
        document["file"] = file.name
        document["offset"] = file.start + file.nbytes
        document["file_nbytes"] = len(part.data)
        file.nbytes += len(part.data)
        self._report.nbytes += len(part.data)

    def _finish(self, file: _AppendedFile) -> None:
        """Write the sizes into the header of a WAV file."""
        if file.audio is not None:
            self._write_at(file, 0, wav_header(file.audio, file.nbytes))
            if file.nbytes % 2:
                self._write_at(file, file.start + file.nbytes, b"\0")

    def _create(self, file: _AppendedFile, header: bytes, kind: str) -> None:
        fd = self._folder.create(file.name)
        file.identity = disk.identity(fd)
        os.close(fd)
        self._write_at(file, 0, header)
        self._report.nfiles[kind] += 1
        self._report.nbytes += len(header)

    def _write_at(self, file: _AppendedFile, offset: int, data: BytesLike) -> None:
        # Not kept open: a recording may have more streams than a process may have open files.
        reopened = self._folder.reopen(file.name, file.identity)
        with disk.closing(reopened) as fd, disk.naming(self._folder.path(file.name)):
            disk.write_at(fd, offset, data)

    def close(self) -> None:
        """Close the metadata, complete or not; idempotent."""
        if self._lines is not None:
            self._lines.close()

    def finish(self) -> None:
        """Complete all files."""
        for file in self._appended.values():
            self._finish(file)
        if self._lines is not None:
            with disk.naming(self._folder.path(METADATA_NAME)):
                self._lines.close()
