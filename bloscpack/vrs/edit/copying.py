"""Copying recordings: all of one or a part of it, with other tags or another compression.

Payloads are copied as they are stored unless they are to be compressed anew, and ids stay what they
are. A copy of everything has the checksum of its source (`Recording.checksum`).
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..export.contentchecksum import renumbered
from ..format.payload import check_preset
from ..recording import open as open_recording
from ..sequence import RecordSequence, StreamName, TypeName
from .choice import (
    Decimation,
    TagChanges,
    changed_stream_tags,
    changed_tags,
    choose_rows,
    choose_streams,
    described,
)
from .transfer import Plan, Progress, Share, write_plan


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What was copied.

    Attributes
    ----------
    paths : tuple of str
        The files that were made.
    nstreams, nrecords : int
        How many of them the copy has.
    nskipped : int
        Records of the source that it does not have.
    nduplicates : int
        How many of these were in another source, too: see `merge`.
    nbytes : int
        Size of the files.
    notes : tuple of str
        What was repaired or lost when the source was opened.
    """

    paths: tuple[str, ...]
    nstreams: int
    nrecords: int
    nskipped: int
    nduplicates: int
    nbytes: int
    notes: tuple[str, ...] = ()


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
    compression: str | None = None,
    index: Literal["front", "end"] = "front",
    chunk_nbytes: int | None = None,
    renumber: bool = False,
    overwrite: bool = False,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> CopyReport:
    """Copy a recording, or a part of it, to a new one.

    Parameters
    ----------
    src : path, Recording or Selection
        What `open` opens, or such a recording. Of a selection, its records and their streams.
    dst : str or PathLike
        The new file. It appears whole or not at all.
    streams : str or iterable of str, optional
        Streams to copy: ids, or patterns for them as for file names, ``"214-*"``.
    types : str or iterable of str, optional
        Types of records to copy: ``"data"``, ``"configuration"``, ``"state"``.
    after, before : float, optional
        Limits of the time in seconds, both included. Of the records before `after` the last
        configuration record and the last state record of each stream are copied, too: without
        them, what follows could not be understood.
    decimate : float or mapping of str to float, optional
        Seconds that lie at least between a data record and the next of its stream; for all streams,
        or by id or pattern.
    tags : mapping of str to str or None, optional
        Tags of the file to set; None removes one.
    stream_tags : mapping of str to mapping, optional
        The same for streams, by id or pattern.
    compression : str, optional
        A preset for all payloads, as for `create`; ``"none"`` decompresses them. By default they
        are copied as they are stored.
    index : {"front", "end"}
        Where the index goes.
    chunk_nbytes : int, optional
        Split the copy into files of less than so many bytes, as `create` does.
    renumber : bool
        Count the instances of each type from 1 on. By default ids stay.
    overwrite : bool
        Replace a recording at `dst`, its chunks included; it may be `src`.
    nthreads : int, optional
        Threads that recompress; as many as there are processors, at most 8, by default.
    progress : callable, optional
        Called with (bytes of records done, bytes in all).

    Returns
    -------
    CopyReport
        What was copied.

    Raises
    ------
    FileExistsError
        There is a file of this name, or one that would be taken for a chunk of it.
    NotFoundError
        There is no such stream.
    FormatError, CodecError, UnsupportedError
        The source is damaged; payloads only matter when they are compressed anew.
    TypeError, ValueError
        An option is wrong, or a tag is no text.
    OSError
        The source cannot be read, or the copy not be written.

    Notes
    -----
    Records are written in the order of time. What opening the source repaired or lost, damaged
    records among it, the copy does not have: `CopyReport.notes` tells of it. Serial numbers stay.

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
    check_options(compression, index, chunk_nbytes)
    with opened(src, nthreads) as sequence:
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
        written = write_plan(
            plan,
            os.path.realpath(dst),
            compression=compression,
            index=index,
            chunk_nbytes=chunk_nbytes,
            overwrite=overwrite,
            nthreads=nthreads,
            progress=progress,
        )
        return CopyReport(
            tuple(written.paths),
            len(ids),
            len(rows),
            len(content.table) - len(rows),
            0,
            written.nbytes,
            tuple(content.report.lines()),
        )


def check_options(compression: str | None, index: str, chunk_nbytes: int | None) -> None:
    """Raise ValueError for a way to write that there is not."""
    if compression is not None:
        check_preset(compression)
    if index not in ("front", "end"):
        raise ValueError(f"index {index!r}: 'front' or 'end'")
    if chunk_nbytes is not None and chunk_nbytes < 1:
        raise ValueError(f"chunk_nbytes {chunk_nbytes}: expected 1 or more")


@contextmanager
def opened(src: Any, nthreads: int | None) -> Iterator[RecordSequence]:
    """Give the records of `src`, which is closed after the block unless it was open."""
    if isinstance(src, RecordSequence):
        yield src
        return
    with open_recording(src, nthreads=nthreads) as recording:
        yield recording
