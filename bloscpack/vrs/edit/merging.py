"""Merging recordings: the records of several in one file, in order of time.

By default the streams of one device are joined, even if their ids differ: the first streams of a
type in all sources become one, then the second ones, and so on. Rules for tags and duplicates are
those of the reference (1.4.0, ``FilterCopy.cpp``), with two exceptions: records of equal time
within one source all stay, and streams whose records have different definitions are not joined.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from ...plugin import IntArray, NotFoundError, explain_keywords
from ..format.description import Description, StreamTags
from ..format.format import MAX_INSTANCE_ID, StreamId
from ..sequence import RecordSequence, StreamName, TypeName, listed
from .choice import (
    Decimation,
    TagChanges,
    changed_stream_tags,
    changed_tags,
    choose_rows,
    choose_streams,
)
from .copying import CopyReport, opened
from .transfer import OUTPUT_DEFAULTS, OutputOptions, Plan, Share, WriteOptions, write_plan

# Tags that define records: the record format, and the layout of one block.
_FORMAT_TAGS = "RF:", "DL:"


@explain_keywords(OUTPUT_DEFAULTS)
def merge(
    sources: Sequence[Any],
    dst: str | os.PathLike[str],
    *,
    keep_apart: bool = False,
    streams: StreamName | Iterable[StreamName] | None = None,
    types: TypeName | Iterable[TypeName] | None = None,
    after: float | None = None,
    before: float | None = None,
    decimate: Decimation | None = None,
    tags: TagChanges | None = None,
    stream_tags: Mapping[str, TagChanges] | None = None,
    **options: Unpack[OutputOptions],
) -> CopyReport:
    """Merge several recordings into one.

    Parameters
    ----------
    sources : sequence of path, Recording or Selection
        Recordings, or anything that `open` opens.
    dst : str or PathLike
        The new file. It appears only when it is complete.
    keep_apart : bool
        Join no streams. A stream whose id is taken gets the next free instance id of its type.
    streams, types, after, before, decimate
        Part to copy of each source, as for `copy`. Each named stream must be in at least one.
    stream_tags : mapping of str to mapping, optional
        As for `copy`, with ids of the new recording.
    tags, compression, index, chunk_nbytes, overwrite, nthreads, progress
        As for `copy`.

    Returns
    -------
    CopyReport
        Counts and files of the new recording.

    Raises
    ------
    ValueError
        `sources` is empty, or is one recording. Two streams cannot be joined because they define
        records of one type and version differently, or an option is invalid.
    FileExistsError, NotFoundError, FormatError, CodecError, UnsupportedError, TypeError, OSError
        As for `copy`.

    Notes
    -----
    If a user tag has several values, the first source's value keeps the name of the tag. The others
    get names with ``_merged``, ``_merged-1`` and so on appended. Name, flavor and serial number are
    those of the first source. If two sources have records of the same stream, type and time, those
    of the first source are copied; the others count as duplicates, also if they differ. A stream
    that is joined with no other keeps its id if that is free.
    """
    output = WriteOptions(**options)
    is_one = isinstance(sources, str | bytes | os.PathLike | RecordSequence)
    if is_one or not (sources := list(sources)):
        raise ValueError("sources: expected a list of at least one recording")
    # Read for each source, but an iterator yields its items only once.
    types = None if types is None else listed(types)
    with ExitStack() as stack:
        sequences = [stack.enter_context(opened(source, output.nthreads)) for source in sources]
        if isinstance(decimate, Mapping):
            _names_in(sequences, list(decimate))
        joiner = _Joiner(keep_apart=keep_apart)
        chosen = []
        for sequence, names in zip(sequences, _names_in(sequences, streams), strict=True):
            joiner.add(sequence, choose_streams(sequence, names))
            chosen.append(
                choose_rows(
                    sequence,
                    streams=names,
                    types=types,
                    after=after,
                    before=before,
                    decimate=_decimation_in(sequence, decimate),
                )
            )
        shares = [
            Share(sequence._content, rows, ids)
            for sequence, rows, ids in zip(sequences, chosen, joiner.ids, strict=True)
        ]
        shares, order = _in_order(shares)
        tagged = changed_stream_tags(joiner.streams, joiner.stream_ids, stream_tags)
        description = Description(tagged, changed_tags(joiner.file_tags, tags))
        plan = Plan(shares, order, list(joiner.stream_ids), description)
        written = write_plan(plan, dst, output)
        total = sum(len(sequence._content.table) for sequence in sequences)
        return CopyReport(
            tuple(written.paths),
            len(plan.stream_ids),
            len(order),
            total - len(order),
            sum(map(len, chosen)) - len(order),
            written.nbytes,
            tuple(
                f"{sequence._content.source.name}: {line}"
                for sequence in sequences
                for line in sequence._content.report.lines()
            ),
        )


class _Joiner:
    """Streams and tags of the new recording, built source by source.

    The values of `stream_ids` are not used. `ids` are the new ids of the streams of each source, by
    ordinal.
    """

    def __init__(self, *, keep_apart: bool) -> None:
        self._keep_apart = keep_apart
        self.stream_ids: dict[StreamId, None] = {}
        self.streams: dict[StreamId, StreamTags] = {}
        self.file_tags: dict[str, str] = {}
        self.ids: list[list[StreamId]] = []
        # Streams of each type, in the order in which streams of other sources are joined to them.
        self._by_type: dict[int, list[StreamId]] = {}

    def add(self, sequence: RecordSequence, ordinals: list[int]) -> None:
        """Add the streams and tags of a source."""
        content = sequence._content
        self.file_tags = joined_tags(self.file_tags, content.description.file_tags)
        ids = list(content.table.streams)
        counts: dict[int, int] = {}
        for ordinal in ordinals:
            stream_id = ids[ordinal]
            number = counts.get(stream_id.type_id, 0)
            counts[stream_id.type_id] = number + 1
            same_type = self._by_type.setdefault(stream_id.type_id, [])
            tags = content.description.streams.get(stream_id)
            if number < len(same_type) and not self._keep_apart:
                ids[ordinal] = same_type[number]
                self._join(ids[ordinal], tags, f"stream {stream_id} of {content.source.name}")
                continue
            ids[ordinal] = new_id = self._free_id(stream_id)
            same_type.append(new_id)
            self.stream_ids[new_id] = None
            if tags is not None:
                self.streams[new_id] = tags
        self.ids.append(ids)

    def _free_id(self, wanted: StreamId) -> StreamId:
        """Return `wanted` if it is free, else the next free id of its type."""
        if wanted not in self.stream_ids:
            return wanted
        taken = {instance for type_id, instance in self.stream_ids if type_id == wanted.type_id}
        for instance in (max(taken) + 1, *range(1, MAX_INSTANCE_ID)):
            if instance not in taken and instance <= MAX_INSTANCE_ID:
                return StreamId(wanted.type_id, instance)
        raise ValueError(f"stream {wanted}: all instance ids of its type are taken")

    def _join(self, stream_id: StreamId, tags: StreamTags | None, label: str) -> None:
        """Add the tags of another stream to those of a stream."""
        if tags is None:
            return
        known = self.streams.setdefault(stream_id, StreamTags())
        for name, text in tags.vrs.items():
            if name.startswith(_FORMAT_TAGS) and known.vrs.get(name, text) != text:
                raise ValueError(
                    f"{label} cannot be joined with stream {stream_id}: their records are defined"
                    f" differently ({name}); keep_apart=True keeps them apart"
                )
        self.streams[stream_id] = StreamTags(
            joined_tags(known.user, tags.user), {**tags.vrs, **known.vrs}
        )


def joined_tags(known: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Merge the user tags of another source; a different value gets a new tag name."""
    joined = dict(known)
    for name, value in more.items():
        if known.get(name, value) == value:
            joined[name] = value
            continue
        new_name, number = f"{name}_merged", 0
        while new_name in joined or new_name in more:
            number += 1
            new_name = f"{name}_merged-{number}"
        joined[new_name] = value
    return joined


def _names_in(
    sequences: list[RecordSequence], streams: StreamName | Iterable[StreamName] | None
) -> list[list[StreamId] | None]:
    """Return the stream names that apply to each source; each must apply to at least one."""
    if streams is None:
        return [None] * len(sequences)
    found: list[set[int]] = [set() for _ in sequences]
    for name in listed(streams):
        errors = []
        for ordinals, sequence in zip(found, sequences, strict=True):
            try:
                ordinals.update(sequence._match_streams(name))
            except NotFoundError as err:
                errors.append(err)
        if len(errors) == len(sequences):
            raise errors[0]
    return [
        [sequence._content.table.streams[ordinal] for ordinal in sorted(ordinals)]
        for ordinals, sequence in zip(found, sequences, strict=True)
    ]


def _decimation_in(sequence: RecordSequence, decimate: Decimation | None) -> Decimation | None:
    """Return the part of `decimate` that applies to streams of a source."""
    if not isinstance(decimate, Mapping):
        return decimate
    found = {}
    for name, interval in decimate.items():
        with suppress(NotFoundError):
            sequence._match_streams(name)
            found[name] = interval
    return found


def _in_order(shares: list[Share]) -> tuple[list[Share], IntArray]:
    """Return shares without duplicates, and the share of each record in writing order."""
    numbers = np.repeat(np.arange(len(shares)), [len(share.rows) for share in shares])
    rows = np.concatenate([share.rows for share in shares])
    times: NDArray[np.float64] = np.concatenate(
        [share.content.table.timestamp[share.rows] for share in shares]
    )
    types = np.concatenate([share.content.table.record_type[share.rows] for share in shares])
    keys = np.concatenate([_keys(share) for share in shares])
    # Records that are equal but for the source become neighbours, the first source first.
    order = np.lexsort((numbers, types, keys, times))
    is_new = np.zeros(len(order), np.bool_)
    is_new[:1] = True
    for column in (times, keys, types):
        ordered = column[order]
        is_new[1:] |= ordered[1:] != ordered[:-1]
    source = numbers[order]
    order = order[source == source[is_new][np.cumsum(is_new) - 1]]
    # Readers sort the records of the new file the same way: by time, stream, place in the file.
    order = order[np.lexsort((rows[order], numbers[order], keys[order], times[order]))]
    kept = [
        Share(share.content, rows[order[numbers[order] == number]], share.ids)
        for number, share in enumerate(shares)
    ]
    return kept, numbers[order]


def _keys(share: Share) -> IntArray:
    """Return a number for each record that sorts like its new stream id."""
    ids = np.array(share.ids, np.int64).reshape(-1, 2)
    keys: IntArray = ids[:, 0] << 16 | ids[:, 1]
    return keys[share.content.table.stream[share.rows]]
