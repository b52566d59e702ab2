"""Joining recordings: the records of several in one, in the order of time.

By default the streams of one device are joined: the first stream of a type in each source with the
first of that type in the others, the second with the second, and so on, whatever their ids. Rules
for tags and duplicates are those of the reference (1.4.0, ``FilterCopy.cpp``), but for two things:
records of equal time within one source all stay, and streams whose records look different are not
joined.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...exceptions import NotFoundError
from ...types import IntArray
from ..format.description import Description, StreamTags
from ..format.format import StreamId
from ..sequence import RecordSequence, StreamName, TypeName
from .choice import (
    Decimation,
    TagChanges,
    changed_stream_tags,
    changed_tags,
    choose_rows,
    choose_streams,
)
from .copying import CopyReport, check_options, opened
from .transfer import Plan, Progress, Share, write_plan

_MAX_INSTANCE_ID = 0xFFFF
# Tags that say what records look like: of the whole, and of one block.
_FORMAT_TAGS = "RF:", "DL:"


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
    compression: str | None = None,
    index: Literal["front", "end"] = "front",
    chunk_nbytes: int | None = None,
    overwrite: bool = False,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> CopyReport:
    """Make one recording of several.

    Parameters
    ----------
    sources : sequence of path, Recording or Selection
        What `open` opens, or such recordings.
    dst : str or PathLike
        The new file. It appears whole or not at all.
    keep_apart : bool
        Join no streams: those whose id is taken get the next free instance id of their type.
    streams, types, after, before, decimate
        What to take of each source, as for `copy`. Each stream has to be in one of them.
    stream_tags : mapping of str to mapping, optional
        As for `copy`; by ids of the new recording.
    tags, compression, index, chunk_nbytes, overwrite, nthreads, progress
        As for `copy`.

    Returns
    -------
    CopyReport
        What was copied.

    Raises
    ------
    ValueError
        There are no sources, two streams cannot be joined because they describe records of one type
        and version in different ways, or an option is wrong.
    FileExistsError, NotFoundError, FormatError, CodecError, UnsupportedError, TypeError, OSError
        As for `copy`.

    Notes
    -----
    Of a user tag that has several values, the first source's keeps its name; the others get names
    with ``_merged``, ``_merged-1`` and so on behind it. Of name, flavor and serial number the first
    are kept. Where two sources have records of the same stream, type and time, those of the first
    source are copied: the others count as duplicates, whatever they hold. A stream with nothing to
    be joined with keeps its id if that is free.
    """
    check_options(compression, index, chunk_nbytes)
    if isinstance(sources, str | bytes | os.PathLike) or not len(sources):
        raise ValueError("sources: expected a list of at least one recording")
    with ExitStack() as stack:
        sequences = [stack.enter_context(opened(source, nthreads)) for source in sources]
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
    """The streams of the new recording, as sources are added.

    Attributes
    ----------
    stream_ids : dict of StreamId
        All of them; the values do not matter.
    streams : dict of StreamTags
        Tags of those that have any.
    file_tags : dict of str
        Tags of the file.
    ids : list of list of StreamId
        For each source the new ids of its streams, by ordinal.
    """

    def __init__(self, *, keep_apart: bool) -> None:
        self._keep_apart = keep_apart
        self.stream_ids: dict[StreamId, None] = {}
        self.streams: dict[StreamId, StreamTags] = {}
        self.file_tags: dict[str, str] = {}
        self.ids: list[list[StreamId]] = []
        # The streams of each type, in the order in which others are joined to them.
        self._by_type: dict[int, list[StreamId]] = {}

    def add(self, sequence: RecordSequence, ordinals: list[int]) -> None:
        """Add the streams of a source."""
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
        """Return an id that no stream has: `wanted` or the next one of its type."""
        if wanted not in self.stream_ids:
            return wanted
        taken = {instance for type_id, instance in self.stream_ids if type_id == wanted.type_id}
        for instance in (max(taken) + 1, *range(1, _MAX_INSTANCE_ID)):
            if instance not in taken and instance <= _MAX_INSTANCE_ID:
                return StreamId(wanted.type_id, instance)
        raise ValueError(f"stream {wanted}: all instance ids of its type are taken")

    def _join(self, stream_id: StreamId, tags: StreamTags | None, called: str) -> None:
        """Add the tags of one more stream to those of a stream."""
        if tags is None:
            return
        known = self.streams.setdefault(stream_id, StreamTags())
        for name, text in tags.vrs.items():
            if name.startswith(_FORMAT_TAGS) and known.vrs.get(name, text) != text:
                raise ValueError(
                    f"{called} cannot be joined with stream {stream_id}: they differ in what"
                    f" records look like ({name}); keep_apart=True keeps them apart"
                )
        self.streams[stream_id] = StreamTags(
            joined_tags(known.user, tags.user), {**tags.vrs, **known.vrs}
        )


def joined_tags(known: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Return user tags with those of another source; another value of a tag gets a new name."""
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
    """Return what streams to take of each source; each name has to fit one in any of them."""
    if streams is None:
        return [None] * len(sequences)
    names = list(streams) if isinstance(streams, list | tuple | set | frozenset) else [streams]
    found: list[set[int]] = [set() for _ in sequences]
    for name in names:
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
    """Return the part of `decimate` that is about streams of a source."""
    if not isinstance(decimate, Mapping):
        return decimate
    ids = {str(stream_id) for stream_id in sequence._content.table.streams}
    return {
        name: interval
        for name, interval in decimate.items()
        if name in ids or any(character in name for character in "*?[")
    }


def _in_order(shares: list[Share]) -> tuple[list[Share], IntArray]:
    """Return shares without duplicates, and the order in which their records are written."""
    numbers = np.repeat(np.arange(len(shares)), [len(share.rows) for share in shares])
    rows = np.concatenate([share.rows for share in shares])
    times: NDArray[np.float64] = np.concatenate(
        [share.content.table.timestamp[share.rows] for share in shares]
    )
    types = np.concatenate([share.content.table.record_type[share.rows] for share in shares])
    keys = np.concatenate([_keys(share) for share in shares])
    # What is equal but for the source comes together, the first source first.
    order = np.lexsort((numbers, types, keys, times))
    is_new = np.zeros(len(order), np.bool_)
    is_new[:1] = True
    for column in (times, keys, types):
        ordered = column[order]
        is_new[1:] |= ordered[1:] != ordered[:-1]
    source = numbers[order]
    order = order[source == source[is_new][np.cumsum(is_new) - 1]]
    # As readers sort the records of the new file: by time and stream, and then by their places.
    order = order[np.lexsort((rows[order], numbers[order], keys[order], times[order]))]
    kept = [
        Share(share.content, rows[order[numbers[order] == number]], share.ids)
        for number, share in enumerate(shares)
    ]
    return kept, numbers[order]


def _keys(share: Share) -> IntArray:
    """Return for each record a number that sorts as its new stream id does."""
    ids = np.array(share.ids, np.int64).reshape(-1, 2)
    keys: IntArray = ids[:, 0] << 16 | ids[:, 1]
    return keys[share.content.table.stream[share.rows]]
