"""Writing a frame store: clips one after the other, each followed by its index segment.

Valid data are never overwritten, so no crash and no failed write damages existing clips. Bytes
after the last intact segment belong to no clip. A clip is part of the store as soon as its segment
is written, and is durable after `flush`.

A change to existing clips is kept in memory, and so are the segments of all clips that are appended
after it, until `flush` writes one segment with all of them. Its removed clips are given back to the
file system when the writer is closed, if no other handle could still read them.

The segment of a single clip leads to the previous one. To keep the chain short, segments are merged
now and then: all of the last ones that hold at most twice as much as what has been merged so far. A
chain of n clips then has about log n segments, and n clips cost n log n bytes of index.
"""

import os
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from threading import RLock
from typing import Any, Self

import numpy as np
from xxhash import xxh3_64_digest

from ...exceptions import CodecError, FileChangedError, FormatError, NotFoundError
from ...notice import notice
from ...storage import disk
from ...storage.file import FileSource
from ...storage.journal import check_unlocked
from ...storage.protocol import closed_on_error
from ...storage.update import UpdateFile, forked_error
from .directory import pack_index, written
from .format import (
    DIGEST_SIZE,
    FLAG_DIRECTORY,
    MAX_FRAMES,
    Changes,
    Chunks,
    Clips,
    Content,
    Metas,
    pack_id,
    pack_segment,
    raw_padding,
)
from .frameencoding import EncodedClip, Encoder, Options, pack_meta
from .front import Front, pack_front
from .index import (
    MAX_CHUNKS,
    MAX_CLIPS,
    MAX_METAS_NBYTES,
    Finder,
    Group,
    has_unknown,
    merged,
)
from .segment import Segment

# Stored bytes per write call.
_WRITE_NBYTES = 1 << 20
# Length of the chain from which segments are merged without a flush.
_MAX_SINGLE = 256


class StoreWriter:
    """Frame store open for appending, locked; made by `create` or `open`."""

    def __init__(self, file: UpdateFile) -> None:
        self._file = file
        # Forked children use it for reading, too.
        self.source = FileSource(file.path)
        self.source.name = file.name
        self.front = Front(self.source)
        self.index = index = Finder(self.source, self.source.size()).find()
        self._pid = os.getpid()
        self._end = index.end
        self._single = sum(each.tail.nclips == 1 for each in index.segments)
        self._is_dirty = False
        # Segments, and the end of the data, before the first change that is not in the file; None
        # without such a change.
        self._before: tuple[tuple[Group, ...], int] | None = None
        # Ordinals of clips that were changed again before they were in the file, with the same
        # chunks; and the extents of the chunks of removed clips, those since `_before` apart.
        self._superseded: set[int] = set()
        self._leaving: list[tuple[int, int]] = []
        self._left: list[tuple[int, int]] = []
        self._has_rest = False  # whether bytes of a failed write may follow `_end`
        self._is_broken = False
        self._is_open = True
        # The name that the file gets when it is closed, and the file that has it until then.
        self._target = ""
        self._replaced: UpdateFile | None = None
        # Whether a clip is being written. The frames may come from a generator of the caller, which
        # could append to the same store: the lock lets its thread pass, and this refuses it.
        self._is_busy = False
        self._lock = RLock()

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        options: Options,
        attrs: Mapping[str, Any] | None,
        *,
        overwrite: bool,
        locking: bool = True,
        is_late: bool = False,
    ) -> Self:
        """Create an empty store, durably.

        An existing file stays until the new one is closed; with `is_late`, the new one appears
        only then in any case. FileExistsError without `overwrite` if the file exists; LockedError
        if a writer has it open.
        """
        name, target = os.fspath(path), disk.target_of(path)
        if not overwrite and os.path.lexists(name):
            raise FileExistsError(
                f"{name!r} exists already: open it with mode 'a' to append, or pass overwrite=True"
            )
        front = pack_front(options.stored(), attrs or {})
        none = np.zeros(0, "<u8")
        content = Content(Clips.of(none, none, none, [], []), b"", b"")
        _, segment = pack_segment(
            content, offset=len(front), first_clip=0, previous=0, compress=False
        )
        file = UpdateFile.create(target, name, locking=locking)
        with closed_on_error(file):
            file.write_at(0, front, segment)
            file.sync()
            replaced = _locked(target, locking=locking) if os.path.lexists(target) else None
            if not (replaced or is_late):
                file.publish(target, None, overwrite=overwrite)
                return cls(file)
            self = cls(file)
            self._target, self._replaced = target, replaced
            return self

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, locking: bool = True) -> Self:
        """Open a store for appending; an unfinished append of a killed writer is cut off.

        LockedError if another writer has it open.
        """
        file = UpdateFile.open(path, locking=locking)
        with closed_on_error(file, os.fspath(path)):
            self = cls(file)
            self._cut_unfinished()
        return self

    def _cut_unfinished(self) -> None:
        """Cut off an unfinished append.

        If it contains a segment magic, it may be a damaged segment instead. Then it is kept, and
        new clips are appended after it.
        """
        size = self._file.size()
        if self._end == size:
            return
        if has_unknown(self.source, self._end, size, self.index.total):
            notice("%s: %d damaged bytes at its end are kept", self.name, size - self._end)
            self._end = size
        else:
            self._file.truncate(self._end)

    @property
    def name(self) -> str:
        """The path as the caller gave it."""
        return self._file.name or self._file.path

    def append(
        self,
        id_: str,
        frames: Any,
        meta: Mapping[str, Any] | None,
        options: Options,
        nthreads: int | None,
        *,
        replaces: bool = False,
    ) -> None:
        """Write a clip; see `FrameStore.append` and `FrameStore.replace`."""
        text = pack_meta(meta)
        notes: list[str] = []

        def start() -> Encoder:
            encoder = Encoder(frames, options, nthreads, text)
            encoder.notes = notes
            return encoder

        self._append(id_, start, replaces=replaces)
        for note in notes:
            notice("%s: clip %.80r: %s", self.name, id_, note)

    def append_encoded(self, id_: str, clip: EncodedClip, *, replaces: bool = False) -> None:
        """Write a clip that was encoded elsewhere."""
        self._append(id_, lambda: clip, replaces=replaces)

    def _append(self, id_: str, start: Callable[[], EncodedClip], *, replaces: bool) -> None:
        self._check_process()
        with self._lock:
            self._check_usable()
            self._cut_rest()
            replaced = self._ordinal_of(id_) if replaces else self._check_free(id_)
            if replaces:
                self._begin()
            self._is_busy = True
            try:
                self._write_clip(id_, start(), replaced)
            except BaseException:
                self._cut()
                raise
            finally:
                self._is_busy = False
            self._tidy()

    def _tidy(self) -> None:
        """Merge segments if there are too many."""
        self._single += 1
        if self._single >= _MAX_SINGLE:
            try:
                if self._before is None:
                    self._merge()
                else:
                    self._gather()
            except OSError as err:  # the clip is in the file; the next flush tries again
                notice("%s: the index could not be merged: %s", self.name, err)

    def remove(self, id_: str) -> None:
        """Remove a clip."""
        self._check_process()
        with self._lock:
            self._check_usable()
            ordinal = self._ordinal_of(id_)
            extents = self._extents_of(ordinal)
            self._begin()
            self.index.update((), removes=(ordinal,))
            self._leaving += extents

    def change(
        self,
        id_: str,
        known: int | None = None,
        *,
        rename: str | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> int:
        """Give a clip another id or other metadata, and return its new ordinal.

        With a `known` ordinal, FileChangedError is raised if another clip has the id now.
        """
        self._check_process()
        with self._lock:
            self._check_usable()
            self._cut_rest()
            index, ordinal = self.index, self._ordinal_of(id_)
            if known not in (None, ordinal):
                raise FileChangedError(
                    f"clip {id_!r:.80} was replaced: read it from the store again"
                )
            if rename is not None:
                self._check_free(rename)
            text = index.meta(ordinal)
            if meta is not None:
                # The header of a video follows its metadata.
                text = b"".join((pack_meta(meta), *text.partition(b"\0")[1:]))
            chunks = index.chunks_of(ordinal)
            self._begin()
            clips = self._clips_of(
                id_ if rename is None else rename,
                index.offset_of(ordinal),
                index.nframes_of(ordinal),
                index.format_bytes(ordinal),
                ordinal,
            )
            packed = Chunks.pack(chunks.cbytes, chunks.filters)
            content = Content(clips, packed, Metas.pack([text]))
            self._add_clip(content, self._end, (), ordinal)
            if ordinal >= self._first:
                self._superseded.add(ordinal)
            self._tidy()
            return self.index.total - 1

    def _ordinal_of(self, id_: str) -> int:
        """Return the ordinal of a clip, which must exist."""
        ordinal = self.index.find(_checked_id(id_))
        if ordinal < 0:
            raise NotFoundError(f"no clip {id_!r:.80} among {self.index.nclips}").at(path=self.name)
        return ordinal

    def _check_free(self, id_: str) -> int:
        """Check that no clip has an id, and return -1."""
        if self.index.find(_checked_id(id_)) >= 0:
            raise ValueError(f"there is a clip {id_!r:.80} already")
        return -1

    def _extents_of(self, ordinal: int) -> list[tuple[int, int]]:
        chunks = self.index.chunks_of(ordinal)
        return [(chunks.start, chunks.end)] if chunks.end > chunks.start else []

    def _clips_of(self, id_: str, offset: int, nframes: int, row: bytes, replaced: int) -> Clips:
        """Return the section of a clip, which has the place of the one that it replaces."""
        changes = None
        if replaced >= 0:
            own = np.array([self.index.total], np.int64)
            place = np.array([self.index.place_of(replaced)], np.int64)
            changes = Changes(own, place, own[:0], 0)
        return Clips.of(
            np.array([offset], "<u8"),
            np.array([nframes], "<u4"),
            np.zeros(1, "<u4"),
            [pack_id(id_)],
            [row],
            changes=changes,
        )

    def _write_clip(self, id_: str, encoder: EncodedClip, replaced: int) -> None:
        position = start = self._end
        parts: list[bytes] = []
        waiting = 0
        cbytes, filters, digests = array("I"), bytearray(), bytearray()
        is_raw = encoder.is_raw
        self._has_rest = True
        for stored, filter_id in encoder:
            digest = xxh3_64_digest(stored)
            if is_raw:
                if not cbytes:
                    parts.append(bytes(raw_padding(start)))
                    waiting = raw_padding(start)
                    start += waiting
                parts.append(stored)
                digests += digest
            else:
                parts += (stored, digest)
                waiting += DIGEST_SIZE
            waiting += len(stored)
            cbytes.append(len(stored))
            filters.append(filter_id)
            if waiting >= _WRITE_NBYTES:
                self._file.write_at(position, b"".join(parts))
                position += waiting
                parts, waiting = [], 0
        if encoder.nframes > MAX_FRAMES:
            raise ValueError(f"a clip has at most {MAX_FRAMES} frames, not {encoder.nframes}")
        parts.append(bytes(digests))
        row = encoder.format.pack()
        clips = self._clips_of(id_, start, encoder.nframes, row, replaced)
        chunks = Chunks.pack(np.array(cbytes, "<u4"), filters)
        content = Content(clips, chunks, Metas.pack([encoder.text]))
        extents = self._extents_of(replaced) if replaced >= 0 else []
        self._add_clip(content, position, parts, replaced)
        self._leaving += extents

    def _add_clip(
        self, content: Content, position: int, parts: Sequence[bytes], replaced: int
    ) -> None:
        """Write the last bytes of a clip, and its segment unless a change is not in the file."""
        last = self.index.segments[-1].tail
        tail, segment = pack_segment(
            content,
            offset=position + sum(map(len, parts)),
            first_clip=last.total,
            previous=last.end if last.total else 0,
            compress=False,
            total=last.total + 1,
        )
        is_kept = self._before is not None
        made = Segment(self.source, tail, content.clips, content if is_kept else None)
        data = b"".join(parts if is_kept else (*parts, segment))
        # The segment of an empty store leads nowhere.
        removes = (replaced,) if replaced >= 0 else ()
        self._add_segment(position, data, made, 0 if last.total else 1, removes)

    def _add_segment(
        self,
        position: int,
        data: bytes,
        made: Group,
        replaced: int,
        removes: Collection[int] = (),
        *,
        commits: bool = False,
    ) -> None:
        """Write data, of which a segment is the end, and add it to the index: both, or neither.

        Python may raise KeyboardInterrupt at any call. An index with a clip behind `_end` would let
        the next write overwrite the clip.
        """
        index = self.index
        segments, gone = index.segments, index.gone
        self._is_dirty = self._has_rest = True
        try:
            self._file.write_at(position, data)
            if commits:
                index.set((*segments[: len(segments) - replaced], made))
            else:
                index.update([made], replaced, removes)
            self._end, self._has_rest = position + len(data), False
        except BaseException:
            index.set(segments, gone.difference(removes))
            self._cut(durably=True)
            raise

    def _begin(self) -> None:
        """Note the state in the file before its first change."""
        if self._before is None:
            self._before = self.index.segments, self._end

    @property
    def _first(self) -> int:
        """First ordinal of the clips that are not in the file."""
        return self.index.total if self._before is None else self._before[0][-1].tail.total

    def rollback(self) -> None:
        """Forget all changes since the last flush, and clips that were appended after the first."""
        with self._lock:
            if self._before is None:
                return
            segments, self._end = self._before
            self.index.set(segments)
            self._forget()
            self._cut()

    def _forget(self) -> None:
        self._before, self._single = None, 0
        self._superseded, self._leaving = set(), []

    def _gather(self, *, commits: bool = False) -> None:
        """Merge the segments that are not in the file into one; with `commits`, write that."""
        if self._before is None:
            return
        index, before = self.index, self._before[0]
        # The segment of an empty store leads nowhere, and is replaced by the first one.
        kept = before if before[-1].tail.total else ()
        segments = index.segments[len(kept) :]
        removed = index.gone - self._superseded if commits else frozenset[int]()
        if not segments and not removed:
            return
        dead = index.dead + sum(stop - start for start, stop in self._leaving)
        contents = [each for group in segments for each in index.content(group)]
        content = merged(contents, self._superseded, removed, dead)
        tail, packed = pack_segment(
            content,
            offset=self._end,
            first_clip=self._first,
            previous=kept[-1].tail.end if kept else 0,
            compress=commits,
            total=index.total + len(removed),
        )
        made = Segment(self.source, tail, content.clips, None if commits else content)
        data = packed if commits else b""
        self._add_segment(self._end, data, made, len(segments), commits=commits)
        self._single = 0

    def _cut(self, *, durably: bool = False) -> None:
        """Cut off the bytes that a failed append has written.

        They may include an intact segment of a clip that was never reported as appended. Data
        written over its chunks must not be taken for them, not even after a loss of power.
        """
        try:
            if self._file.size() > self._end:
                self._file.truncate(self._end)
                if durably:
                    self._file.sync()
            self._has_rest = False
        except OSError:
            self._is_broken = True

    def _cut_rest(self) -> None:
        """Cut off what a failed write has left, if cutting it was interrupted, too."""
        if self._has_rest:
            self._cut(durably=True)
            self._check_whole()

    def flush(self) -> None:
        """Make all clips durable and merge the index; does nothing if nothing was appended."""
        self._check_process()
        with self._lock:
            self._check_usable()
            self._flush()

    def _flush(self) -> None:
        self._cut_rest()
        if self._before is not None:
            # The new chunks must be on disk before the segment that removes the old ones.
            self._file.sync()
            self._gather(commits=True)
            self._left += self._leaving
            self._forget()
        if self._is_dirty:
            # A merged segment must not be on disk before the segments it leads to.
            self._file.sync()
            if self._merge():
                self._file.sync()
            self._is_dirty = False

    def _merge(self) -> bool:
        """Merge the last segments of the chain into one, and return whether that was needed."""
        while True:
            segments = self._mergeable()
            if len(segments) < 2:
                self._single = 0
                return False
            first = segments[0].extent
            removed = {n for each in segments for n in each.removed if n < first.first}
            try:
                contents = [each for group in segments for each in self.index.content(group)]
                content = merged(contents, self.index.removed, removed, self.index.dead)
            except (FormatError, CodecError):
                # If a segment is damaged, replaced or not, the chain stays unchanged.
                if segments == self._mergeable():
                    self._single = 0
                    return False
                continue
            break
        tail, packed = pack_index(
            content,
            offset=self._end,
            first_clip=first.first,
            previous=first.previous,
            total=self.index.total,
        )
        if tail.flags & FLAG_DIRECTORY:
            # A part that is lost with the power needs the segments that stand for it.
            self._file.sync()
        made = written(self.source, tail, packed, content.clips)
        self._add_segment(self._end, packed, made, len(segments))
        self._single = 0
        return True

    def _mergeable(self) -> list[Group]:
        """Return the segments to merge: the last ones, up to one that is far larger."""
        taken: list[Group] = []
        nclips = nchunks = nbytes = 0
        for segment in reversed(self.index.segments):
            extent = segment.extent
            own = extent.nclips + len(segment.removed)
            nclips += own
            nchunks += extent.nchunks
            nbytes += extent.metas_nbytes
            if taken and (
                own > 2 * (nclips - own)
                or not extent.total
                or nclips > MAX_CLIPS
                or nchunks > MAX_CHUNKS
                or nbytes > MAX_METAS_NBYTES
            ):
                break
            taken.append(segment)
        return taken[::-1]

    def close(self) -> None:
        """Flush and release the lock; idempotent."""
        if os.getpid() != self._pid:
            self._close_files()
            return
        with self._lock:
            is_open, self._is_open = self._is_open, False
            try:
                if is_open and not self._is_broken:
                    self._flush()
                    if self._target:
                        self._file.publish(self._target, self._replaced)
                    self._free()
            finally:
                self._close_files()

    def _free(self) -> None:
        """Give the chunks of removed clips back to the file system.

        No reader of an earlier state may find them to be zeros, so they stay if another handle, a
        map or a forked process has the file open. A handle opened later reads the new state.
        """
        self.source.close()
        with suppress(OSError):  # all changes are in the file
            if self._left and self._file.is_only_opened():
                for start, stop in self._left:
                    self._file.punch(start, stop - start)

    @property
    def is_mine(self) -> bool:
        """Whether this process opened the store, and not its parent."""
        return os.getpid() == self._pid

    @property
    def is_late(self) -> bool:
        """Whether the file appears under its name only when it is closed."""
        return bool(self._target)

    def abandon(self) -> None:
        """Release the lock without syncing anything; a file that is late does not appear."""
        self._is_open = False
        self._close_files()

    @property
    def has_changes(self) -> bool:
        """Whether there are changes that are not in the file."""
        return self._before is not None

    def _close_files(self) -> None:
        self._file.close()
        if self._replaced is not None:
            self._replaced.close()

    def _check_process(self) -> None:
        """Raise in a forked child, before it waits for a lock that is never released."""
        if os.getpid() != self._pid:
            raise forked_error(self._pid, self.name)

    def _check_usable(self) -> None:
        if not self._is_open:
            raise ValueError("I/O operation on a closed frame store: open the file again")
        if self._is_busy:
            raise ValueError("a clip is being appended: its frames must not change the store")
        self._check_whole()

    def _check_whole(self) -> None:
        if self._is_broken:
            raise OSError(
                f"{self.name}: an append failed, and what it wrote could not be cut off; "
                "close the store and open it again"
            )


def _checked_id(id_: str) -> str:
    """Return an id; TypeError if it is not a str."""
    if not isinstance(id_, str):
        raise TypeError(f"an id must be a str, not {type(id_).__name__}")
    return id_


def _locked(target: str, *, locking: bool) -> UpdateFile | None:
    """Return an existing file, locked until it is replaced; None if it cannot be written."""
    try:
        return UpdateFile.open(target, locking=locking)
    except PermissionError:
        check_unlocked(target)
        return None
