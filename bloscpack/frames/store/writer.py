"""Writing a frame store: clips one after the other, each followed by its index segment.

Valid data are never overwritten, so no crash and no failed write damages existing clips. Bytes
after the last intact segment belong to no clip. A clip is part of the store as soon as its segment
is written, and is durable after `flush`.

The segment of a single clip leads to the previous one. To keep the chain short, segments are merged
now and then: all of the last ones that hold at most twice as much as what has been merged so far. A
chain of n clips then has about log n segments, and n clips cost n log n bytes of index.
"""

import os
from array import array
from collections.abc import Callable, Mapping
from threading import RLock
from typing import Any, Self

import numpy as np
from xxhash import xxh3_64_digest

from ...exceptions import CodecError, FormatError
from ...notice import notice
from ...storage import disk
from ...storage.file import FileSource
from ...storage.journal import check_unlocked
from ...storage.protocol import closed_on_error
from ...storage.update import UpdateFile, forked_error
from .format import (
    DIGEST_SIZE,
    MAX_FRAMES,
    Chunks,
    Clips,
    Content,
    Metas,
    pack_id,
    pack_segment,
    raw_padding,
)
from .frameencoding import EncodedClip, Encoder, Options, pack_meta
from .segments import (
    MAX_CHUNKS,
    MAX_CLIPS,
    MAX_METAS_NBYTES,
    Finder,
    Segment,
    has_magic,
    merged,
)
from .storefront import Front, pack_front

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
        if has_magic(self.source, self._end, size):
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
    ) -> None:
        """Write a clip; see `FrameStore.append`."""
        text = pack_meta(meta)
        notes: list[str] = []

        def start() -> Encoder:
            encoder = Encoder(frames, options, nthreads, text)
            encoder.notes = notes
            return encoder

        self._append(id_, start)
        for note in notes:
            notice("%s: clip %.80r: %s", self.name, id_, note)

    def append_encoded(self, id_: str, clip: EncodedClip) -> None:
        """Write a clip that was encoded elsewhere."""
        self._append(id_, lambda: clip)

    def _append(self, id_: str, start: Callable[[], EncodedClip]) -> None:
        self._check_process()
        if not isinstance(id_, str):
            raise TypeError(f"an id must be a str, not {type(id_).__name__}")
        with self._lock:
            self._check_usable()
            self._cut_rest()
            if self.index.find(id_) >= 0:
                raise ValueError(f"there is a clip {id_!r:.80} already")
            self._is_busy = True
            try:
                self._write_clip(id_, start())
            except BaseException:
                self._cut()
                raise
            finally:
                self._is_busy = False
            self._single += 1
            if self._single >= _MAX_SINGLE:
                try:
                    self._merge()
                except OSError as err:  # the clip is in the file; the next flush tries again
                    notice("%s: the index could not be merged: %s", self.name, err)

    def _write_clip(self, id_: str, encoder: EncodedClip) -> None:
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
        waiting += len(digests)
        id_bytes = pack_id(id_)
        clips = Clips.of(
            np.array([start], "<u8"),
            np.array([encoder.nframes], "<u4"),
            np.zeros(1, "<u4"),
            [id_bytes],
            [encoder.format.pack()],
        )
        chunks = Chunks.pack(np.array(cbytes, "<u4"), filters)
        last = self.index.segments[-1].tail
        tail, segment = pack_segment(
            Content(clips, chunks, Metas.pack([encoder.text])),
            offset=position + waiting,
            first_clip=last.total,
            previous=last.end if last.total else 0,
            compress=False,
        )
        made = Segment(self.source, tail, clips)
        # The segment of an empty store leads nowhere.
        replaced = 0 if self.index.nclips else 1
        self._add_segment(position, b"".join((*parts, segment)), made, replaced)

    def _add_segment(self, position: int, data: bytes, made: Segment, replaced: int) -> None:
        """Write data that end with a segment, and add it to the index: both, or neither.

        Python may raise KeyboardInterrupt at any call. An index with a clip behind `_end` would let
        the next write overwrite the clip.
        """
        index = self.index
        before = index.segments, index.few
        self._is_dirty = self._has_rest = True
        try:
            self._file.write_at(position, data)
            index.add(made, replaced)
            self._end, self._has_rest = made.tail.end, False
        except BaseException:
            index.segments, index.few = before
            self._cut(durably=True)
            raise

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
            try:
                content = merged([self.index.content(each) for each in segments])
            except (FormatError, CodecError):
                # If a segment is damaged, replaced or not, the chain stays unchanged.
                if segments == self._mergeable():
                    self._single = 0
                    return False
                continue
            break
        first = segments[0].tail
        tail, packed = pack_segment(
            content,
            offset=self._end,
            first_clip=first.first_clip,
            previous=first.previous,
            compress=True,
        )
        made = Segment(self.source, tail, content.clips)
        self._add_segment(self._end, packed, made, len(segments))
        self._single = 0
        return True

    def _mergeable(self) -> list[Segment]:
        """Return the segments to merge: the last ones, up to one that is far larger."""
        taken: list[Segment] = []
        nclips = nchunks = nbytes = 0
        for segment in reversed(self.index.segments):
            tail = segment.tail
            nclips += tail.nclips
            nchunks += tail.nchunks
            nbytes += tail.sections[2].decoded
            if taken and (
                tail.nclips > 2 * (nclips - tail.nclips)
                or not tail.nclips
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
            finally:
                self._close_files()

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


def _locked(target: str, *, locking: bool) -> UpdateFile | None:
    """Return an existing file, locked until it is replaced; None if it cannot be written."""
    try:
        return UpdateFile.open(target, locking=locking)
    except PermissionError:
        check_unlocked(target)
        return None
