"""The content of a recording as files: images, WAV, custom blocks, and a line of JSON per record.

Files lie in a folder per stream, named by nothing but numbers of records and blocks, and in
``metadata.jsonl``: first what is known of the recording, then each record with the values of its
metadata and the names of the files that its blocks are in. No name comes from the recording, and no
link is followed: nothing is written outside the folder.

Records are read and encoded in threads and written in order. One that is damaged, or a block, is a
problem in the report and an ``error`` in its line, and does not end the work.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ...arguments import text_list
from ...exceptions import BloscpackError, UnsupportedError
from ...parallel.threads import map_ordered, resolve_nthreads
from ...storage import disk
from ...storage.folder import Folder
from ...types import BytesLike, IntArray
from ..block.audio import AudioFormat, AudioSpec
from ..block.pixels import ImageSpec
from ..block.wav import HEADER_SIZE, MAX_NBYTES, wav_header, wav_samples
from ..read.iteration import batches_of, iter_readable
from ..read.record import Block, Record
from ..recording import Recording
from ..sequence import RecordSequence
from ..verify import Problem
from .documents import Document, block_document, record_entry, recording_document
from .imagefile import picture_of

KINDS = "image", "audio", "custom", "metadata"
"""What can be extracted; of metadata, ``metadata.jsonl``."""
METADATA_NAME = "metadata.jsonl"
# Files of several records that are open at a time.
_MAX_OPEN_FILES = 64


@dataclass(slots=True)
class ExtractReport:
    """What was extracted.

    Attributes
    ----------
    nrecords : int
        Records that were read.
    nfiles : Counter
        Files written, by kind: ``"image"``, ``"audio"``, ``"custom"``, ``"metadata"``.
    nbytes : int
        Of all files.
    problems : list of Problem
        What is damaged and therefore missing.
    """

    nrecords: int = 0
    nfiles: Counter[str] = field(default_factory=Counter)
    nbytes: int = 0
    problems: list[Problem] = field(default_factory=list)


@dataclass(slots=True)
class _Part:
    """What goes into a file: all of it, or the next part of it."""

    kind: str
    block: int
    data: BytesLike
    suffix: str
    is_part: bool = False
    audio: AudioSpec | None = None


@dataclass(slots=True)
class _Extracted:
    """What a record gives."""

    entry: Document
    stream: str
    parts: list[tuple[Document, _Part]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    is_read: bool = True


def extract(
    recording: Recording,
    folder: str | os.PathLike[str],
    *,
    records: RecordSequence | None = None,
    kinds: Iterable[str] = KINDS,
    overwrite: bool = False,
    nthreads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ExtractReport:
    """Write the content of records into files.

    Parameters
    ----------
    recording : Recording
        Where they are from.
    folder : str or PathLike
        Where the files go; made if it is not there. It must be empty.
    records : RecordSequence, optional
        Of the recording; all by default.
    kinds : iterable of str
        Of `KINDS`.
    overwrite : bool
        Whether the folder may have files, of which those with the same names are replaced.
    nthreads : int, optional
        Threads that read and encode.
    progress : callable, optional
        Called with the stored bytes of records that are done, and of all.

    Returns
    -------
    ExtractReport
        What was written, and what is missing.

    Raises
    ------
    ValueError
        There is no such kind.
    FileExistsError
        The folder has files and not `overwrite`, or a link is in the place of a folder.
    OSError
        A file cannot be written.
    ImportError
        Pillow is missing, and there are raw images.
    """
    wanted = set(text_list("kinds", kinds))
    if wanted - set(KINDS):
        raise ValueError(f"kind {min(wanted - set(KINDS))!r}: one of {', '.join(KINDS)}")
    chosen: RecordSequence = recording if records is None else records
    total = int(chosen.stored_nbytes.sum())
    report, done = ExtractReport(), 0
    target = _Files(Folder(folder, overwrite=overwrite), report)
    take = partial(_extract_rows, chosen, wanted - {"metadata"})
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


def _extract_rows(
    records: RecordSequence, kinds: set[str], rows: IntArray
) -> tuple[int, list[_Extracted]]:
    selection = records[int(rows[0]) : int(rows[-1]) + 1]
    found = []
    for place, record in iter_readable(selection):
        if isinstance(record, BloscpackError):
            row, stream = int(selection.rows[place]), selection[place : place + 1].stream_ids[0]
            problem = Problem(row, stream, str(record.args[0]))
            entry = {"record": row, "stream": stream, "error": problem.message}
            found.append(_Extracted(entry, stream, problems=[problem], is_read=False))
        else:
            found.append(_extract_record(record, kinds))
    return int(selection.stored_nbytes.sum(dtype=np.int64)), found


def _extract_record(record: Record, kinds: set[str]) -> _Extracted:
    entry = record_entry(record)
    extracted = _Extracted(entry, record.stream_id)
    name = f"record {record.record_index} of stream {record.stream_id}"

    def blame(err: BloscpackError, what: str) -> None:
        text = str(err.args[0])
        text = text if text.startswith("record ") else f"{name}{what}: {text}"
        extracted.problems.append(Problem(record.record_index, record.stream_id, text))

    try:
        blocks, entry["note"] = record.blocks, record.note
    except BloscpackError as err:  # the format is damaged
        blame(err, "")
        entry["error"] = str(err.args[0])
        return extracted
    entry["blocks"] = []
    for number, block in enumerate(blocks):
        document = block_document(block)
        entry["blocks"].append(document)
        try:
            if block.kind == "metadata":
                block.values()
            elif block.kind in kinds and block.nbytes:
                # An empty block makes no file: a format may list many of them at no cost.
                extracted.parts.append((document, _part_of(block, number)))
        except UnsupportedError as err:
            document["error"] = str(err.args[0])
        except BloscpackError as err:
            blame(err, f", block {number}")
            document["error"] = str(err.args[0])
    return extracted


def _part_of(block: Block, number: int) -> _Part:
    spec = block.spec
    if isinstance(spec, ImageSpec):
        return _Part("image", number, *picture_of(block.data, spec))
    if isinstance(spec, AudioSpec) and spec.audio_format == AudioFormat.PCM:
        wav_header(spec, 0)  # raises if there is none
        return _Part("audio", number, wav_samples(block.data, spec), ".wav", True, spec)
    return _Part(block.kind, number, block.data, ".bin")


class _Joined:
    """A file that several records add to: a WAV, or a stream of video."""

    def __init__(self, name: str, part: _Part) -> None:
        self.name = name
        self.key = _key_of(part)
        self.audio = part.audio
        self.start = HEADER_SIZE if part.audio else 0
        self.nbytes = 0
        self.fd = -1
        self.identity = (0, 0)

    def takes(self, part: _Part) -> bool:
        """Whether the part may come behind what is there."""
        return self.key == _key_of(part) and (
            self.audio is None or self.nbytes + len(part.data) <= MAX_NBYTES
        )


def _key_of(part: _Part) -> tuple[Any, ...]:
    spec = part.audio
    if spec is None:
        return (part.suffix,)
    return spec.sample_format, spec.channel_count, spec.sample_rate


class _Files:
    """The files that are written."""

    def __init__(self, folder: Folder, report: ExtractReport) -> None:
        self._folder = folder
        self._report = report
        self._joined: dict[tuple[str, int], _Joined] = {}
        # Those whose files are open, the last used last.
        self._open: dict[_Joined, None] = {}
        self._counts: Counter[tuple[str, int]] = Counter()
        self._lines: Any = None

    def add(self, extracted: _Extracted, *, with_line: bool) -> None:
        """Write what a record gives."""
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
        self._report.problems += extracted.problems
        self._report.nrecords += extracted.is_read

    def write_line(self, document: Document) -> None:
        """Add a line to the metadata."""
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
        """Add a part to the file of its stream and block, or begin another."""
        key = stream_id, part.block
        joined = self._joined.get(key)
        if joined is None or not joined.takes(part):
            if joined is not None:
                self._finish(joined)
            name = f"{stream_id}/{part.kind}-{part.block}-{self._counts[key]}{part.suffix}"
            self._counts[key] += 1
            joined = self._joined[key] = _Joined(name, part)
            header = b"" if joined.audio is None else wav_header(joined.audio, 0)
            joined.start = len(header)
            self._create(joined, header, part.kind)
        self._write_at(joined, joined.start + joined.nbytes, part.data)
        document["file"] = joined.name
        document["offset"] = joined.start + joined.nbytes
        document["file_nbytes"] = len(part.data)
        joined.nbytes += len(part.data)
        self._report.nbytes += len(part.data)

    def _finish(self, joined: _Joined) -> None:
        """Put sizes into the header of a WAV file."""
        if joined.audio is not None:
            self._write_at(joined, 0, wav_header(joined.audio, joined.nbytes))
            if joined.nbytes % 2:
                self._write_at(joined, joined.start + joined.nbytes, b"\0")
        self._release(joined)

    def _create(self, joined: _Joined, header: bytes, kind: str) -> None:
        joined.fd = self._folder.create(joined.name)
        joined.identity = disk.identity(joined.fd)
        self._note_open(joined)
        self._write_at(joined, 0, header)
        self._report.nfiles[kind] += 1
        self._report.nbytes += len(header)

    def _write_at(self, joined: _Joined, offset: int, data: BytesLike) -> None:
        if joined.fd < 0:
            joined.fd = self._folder.reopen(joined.name, joined.identity)
        self._note_open(joined)
        with disk.naming(self._folder.path(joined.name)):
            disk.write_at(joined.fd, offset, data)

    def _note_open(self, joined: _Joined) -> None:
        self._open.pop(joined, None)
        self._open[joined] = None
        if len(self._open) > _MAX_OPEN_FILES:
            self._release(next(iter(self._open)))

    def _release(self, joined: _Joined) -> None:
        self._open.pop(joined, None)
        fd, joined.fd = joined.fd, -1
        if fd >= 0:
            os.close(fd)

    def close(self) -> None:
        """Close all files, complete or not; idempotent."""
        for joined in [*self._open]:
            self._release(joined)
        if self._lines is not None:
            self._lines.close()

    def finish(self) -> None:
        """Complete all files."""
        for joined in self._joined.values():
            self._finish(joined)
        if self._lines is not None:
            with disk.naming(self._folder.path(METADATA_NAME)):
                self._lines.close()
