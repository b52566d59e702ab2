"""Copying recordings, whole or in part, optionally with other tags or another compression.

Payloads are copied in their stored form unless they are to be recompressed; stream ids do not
change. A copy of a whole recording has the checksum of its source (`Recording.checksum`).
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from ...plugin import explain_keywords
from ..export.contentchecksum import renumbered
from ..recording import open as open_recording
from ..sequence import RecordSequence, StreamName, TypeName, listed
from .choice import (
    Decimation,
    TagChanges,
    changed_stream_tags,
    changed_tags,
    choose_rows,
    choose_streams,
    described,
)
from .transfer import OUTPUT_DEFAULTS, OutputOptions, Plan, Share, WriteOptions, write_plan


@dataclass(frozen=True, slots=True)
class CopyReport:
    """Result of a copy.

    Attributes
    ----------
    paths : tuple of str
        The files that were created.
    nstreams, nrecords : int
        Streams and records of the copy.
    nskipped : int
        Records of the source that are not in the copy.
    nduplicates : int
        Skipped records that another source has too: see `merge`.
    nbytes : int
        Total size of the files.
    notes : tuple of str
        Repairs and losses when the source was opened.
    """

    paths: tuple[str, ...]
    nstreams: int
    nrecords: int
    nskipped: int
    nduplicates: int
    nbytes: int
    notes: tuple[str, ...] = ()


@explain_keywords(OUTPUT_DEFAULTS)
def copy(
    src: Any,
    dst: str | os.PathLike[str],
    *,
    streams: StreamName | Iterable[StreamName] | None = None,
    types: TypeName | Iterable[TypeName] | None = None,
    after: float | None = None,
    before: float | None = None,
    decimate: Decimation | None = None,
    tags: TagChanges | None = None,
    stream_tags: Mapping[str, TagChanges] | None = None,
    renumber: bool = False,
    **options: Unpack[OutputOptions],
) -> CopyReport:
    """Copy a recording, or a part of it, to a new file.

    Parameters
    ----------
    src : path, Recording or Selection
        A recording, or anything that `open` opens. A selection copies its records and streams.
    dst : str or PathLike
        The new file. It appears only when it is complete.
    streams : str or iterable of str, optional
        Streams to copy: ids, or shell-style patterns such as ``"214-*"``.
    types : str or iterable of str, optional
        Types of records to copy: ``"data"``, ``"configuration"``, ``"state"``.
    after, before : float, optional
        Time limits in seconds, both inclusive. The last configuration record and the last state
        record of each stream before `after` are copied too, as later records cannot be understood
        without them.
    decimate : float or mapping of str to float, optional
        Least seconds between a copied data record and the next of its stream, for all streams or
        by id or pattern.
    tags : mapping of str to str or None, optional
        Tags of the file to set; None removes a tag.
    stream_tags : mapping of str to mapping, optional
        Tags of streams to set, by id or pattern; None removes a tag.
    compression : str, optional
        Preset for all payloads, as for `create`; ``"none"`` decompresses them. By default payloads
        are copied in their stored form.
    index : {"front", "end"}
        Position of the index.
    chunk_nbytes : int, optional
        Split the copy into files of less than this many bytes, as `create` does.
    renumber : bool
        Number the instances of each type from 1. By default ids do not change.
    overwrite : bool
        Replace an existing recording `dst`, its chunks included; it may be `src`.
    nthreads : int, optional
        Threads that recompress; by default one per processor, at most 8.
    progress : bool, callable or object with ``update``, optional
        True draws a bar; a function is called with (stored bytes of the records done, stored bytes
        of all).

    Returns
    -------
    CopyReport
        Counts and files of the copy.

    Raises
    ------
    FileExistsError
        The file exists, or a file that readers would take for one of its chunks.
    NotFoundError
        A stream does not exist.
    FormatError, CodecError, UnsupportedError
        The source is damaged. Payloads are decoded only when they are recompressed.
    UnsupportedError
        `dst` is a URL.
    TypeError, ValueError
        An option is invalid, or a tag is not a str.
    OSError
        The source cannot be read, or the copy cannot be written.

    Notes
    -----
    Records are written in order of time. Records that were lost to damage when the source was
    opened are not in the copy; `CopyReport.notes` lists these losses. Serial numbers do not change.

    Examples
    --------
    >>> from bloscpack import vrs
    >>> with vrs.create("run.vrs") as recording:
    ...     stream = recording.stream("imu")
    ...     for time in range(100):
    ...         stream.write_payload("data", time, bytes(300))
    >>> report = vrs.copy("run.vrs", "part.vrs", after=20, before=29, compression="zmedium")
    >>> report.nrecords, report.nskipped
    (10, 90)
    """
    output = WriteOptions(**options)
    # Both functions below read the names, which an iterator yields only once.
    streams = None if streams is None else listed(streams)
    with opened(src, output.nthreads) as sequence:
        content = sequence._content
        rows = choose_rows(
            sequence, streams=streams, types=types, after=after, before=before, decimate=decimate
        )
        chosen = [content.table.streams[k] for k in choose_streams(sequence, streams)]
        ids = dict(zip(chosen, renumbered(chosen) if renumber else chosen, strict=True))
        tagged = changed_stream_tags(content.description.streams, chosen, stream_tags)
        plan = Plan(
            [Share(content, rows, [ids.get(id_, id_) for id_ in content.table.streams])],
            np.zeros(len(rows), np.int64),
            list(ids.values()),
            described(tagged, ids, changed_tags(content.description.file_tags, tags)),
        )
        written = write_plan(plan, dst, output)
        return CopyReport(
            tuple(written.paths),
            len(ids),
            len(rows),
            len(content.table) - len(rows),
            0,
            written.nbytes,
            tuple(content.report.lines()),
        )


@contextmanager
def opened(src: Any, nthreads: int | None) -> Iterator[RecordSequence]:
    """Yield the records of `src`; close it afterwards unless the caller had opened it."""
    if isinstance(src, RecordSequence):
        yield src
        return
    with open_recording(src, nthreads=nthreads) as recording:
        yield recording
