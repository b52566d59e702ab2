"""Bytes of a recording: one file, a file and its numbered neighbours, or memory.

A recording may be split into chunks, plain byte ranges in files ``X``, ``X_1``, ``X_2`` (or
``X_0``, ``X_1``) whose concatenation is the file. Here they form one `ByteSource`. Only the index
and the records show which neighbours belong to a recording: `ChunkedSource.keep` drops the others.
"""

import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from ...plugin import (
    RECORDING,
    BytesLike,
    ByteSource,
    ClosedOnExit,
    Extent,
    FilePool,
    Prefetch,
    kind_at,
    may_wait,
    open_source,
    refuse_folder,
)

_CLOSED = "the recording is closed"


class Part(NamedTuple):
    """File with a part of the recording."""

    source: ByteSource  # the open file
    start: int  # position of its first byte in the recording
    nbytes: int  # size of the file when it was opened


class ChunkedSource(ByteSource, ClosedOnExit):
    """Concatenation of several sources, with their sizes at the time of opening.

    `name` is that of the first source, for messages. `is_explicit` is whether the caller named all
    parts. If not, the parts after the first were found beside it.
    """

    def __init__(self, sources: Iterable[ByteSource], *, is_explicit: bool = True) -> None:
        listed = list(sources)
        sizes = [source.size() for source in listed]
        starts = accumulate(sizes[:-1], initial=0)
        self.parts = tuple(map(Part, listed, starts, sizes))
        self.name: str | None = listed[0].name
        self.is_explicit = is_explicit
        self._note_parts()

    def _note_parts(self) -> None:
        self._starts = [part.start for part in self.parts]
        self._size = self.parts[-1].start + self.parts[-1].nbytes if self.parts else 0
        self._single = self.parts[0].source if len(self.parts) == 1 else None
        self.has_latency = self._single is not None and self._single.has_latency

    def keep(self, nparts: int) -> None:
        """Close and drop all parts but the first `nparts`."""
        dropped, self.parts = self.parts[nparts:], self.parts[:nparts]
        self._note_parts()
        for part in dropped:
            part.source.close()

    def size(self) -> int:
        """Return the total size of all parts in bytes."""
        return self._size

    def data_runs(self, most: int) -> list[tuple[int, int]]:
        """Return the (start, stop) of data between holes, at most `most` + 1 per part."""
        runs = []
        for source, first, nbytes in self.parts:
            found = source.data_runs(most)
            for start, stop in [(0, nbytes)] if found is None else found:
                if start < nbytes:  # the file may have grown since
                    runs.append((first + start, first + min(stop, nbytes)))
        return runs

    def read_at(self, offset: int, nbytes: int) -> BytesLike:
        """Return `nbytes` bytes from `offset`, fewer only at the end of the last part.

        Memory is bounded by the size of the recording, however large `nbytes` is.
        """
        nbytes = min(nbytes, self._size - offset)
        if nbytes <= 0:
            self.check_open()
            return b""
        if self._single is not None:
            return self._single.read_at(offset, nbytes)
        self.check_open()
        index = bisect_right(self._starts, offset) - 1
        part = self.parts[index]
        first = part.source.read_at(
            offset - part.start, min(nbytes, part.start + part.nbytes - offset)
        )
        if len(first) == nbytes:
            return first
        pieces, missing = [first], nbytes - len(first)
        for part in self.parts[index + 1 :]:
            piece = part.source.read_at(0, min(missing, part.nbytes))
            pieces.append(piece)
            missing -= len(piece)
            if not missing or len(piece) < part.nbytes:
                break
        return b"".join(pieces)

    def read_into(self, offset: int, view: memoryview) -> int:
        """Fill `view` from `offset`, directly if one part holds all of it."""
        source, at = self.locate(offset, len(view))
        return super().read_into(offset, view) if source is self else source.read_into(at, view)

    def prefetch(self, extents: Iterable[Extent]) -> Prefetch:
        """Start to fetch `extents`, if there is only one part."""
        return super().prefetch(extents) if self._single is None else self._single.prefetch(extents)

    def place(self, head_nbytes: int = 0) -> Any:
        """Return the place of the first part, beside which the others are, or a list of all."""
        places = [part.source.place() for part in self.parts]
        if None in places:
            return None
        return places if self.is_explicit else places[0]

    def locate(self, offset: int, nbytes: int) -> tuple[ByteSource, int]:
        """Return the part that holds an extent and the offset in it; this source if several do."""
        if self.parts:
            part = self.parts[bisect_right(self._starts, offset) - 1]
            if part.start <= offset <= part.start + part.nbytes - nbytes:
                return part.source, offset - part.start
        return self, offset

    def check_open(self) -> None:
        """Raise ValueError if the source is closed."""
        if not self.parts:
            raise ValueError(_CLOSED)

    def close(self) -> None:
        """Close all parts; idempotent."""
        self.keep(0)


def open_recording_source(
    where: Any, storage_options: Mapping[str, Any] | None = None
) -> ChunkedSource:
    """Open the bytes of a recording: a path, URL, sequence of these, buffer or binary file.

    A path includes its numbered neighbours, which are searched beside the target of a link. A
    sequence names every file, in order. URLs are accepted as paths, without neighbours.
    """
    if isinstance(where, list | tuple):
        if not where:
            raise ValueError("expected a path or a list of at least one path")
        return _open_files(where, storage_options, is_explicit=True)
    first = open_source(where, storage_options)
    path = first.place()
    if isinstance(path, str) and (neighbours := find_neighbours(os.path.realpath(path))):
        return _open_files([first, *neighbours], None, is_explicit=False)
    return ChunkedSource([first], is_explicit=False)


def chunk_path(path: str, number: int) -> str:
    """Return the path of a file of a split recording; number 0 is `path` itself.

    A reader that opens ``a_0`` looks for ``a_1``; for any other name it appends ``_1``.
    """
    if not number:
        return path
    return f"{path[:-1] if path.endswith('_0') else path + '_'}{number}"


def numbered_files(path: str) -> list[str]:
    """Return the files whose names are those of chunks of `path`, also behind a gap."""
    folder = os.path.dirname(path)
    stem = os.path.basename(chunk_path(path, 1))[:-1]
    pattern = re.compile(rf"{re.escape(stem)}[1-9][0-9]*")
    names = filter(pattern.fullmatch, os.listdir(folder or os.curdir))
    return [os.path.join(folder, name) for name in sorted(names)]


def find_neighbours(path: str) -> list[str]:
    """Return the numbered neighbours of `path`, up to one that is a recording of its own."""
    found: list[str] = []
    # A chunk has no header: a file that begins like a recording belongs to no other.
    while os.path.isfile(name := chunk_path(path, len(found) + 1)) and kind_at(name) != RECORDING:
        found.append(name)
    return found


def _open_files(
    paths: Sequence[Any], storage_options: Mapping[str, Any] | None, *, is_explicit: bool
) -> ChunkedSource:
    pool = FilePool()  # there may be more chunks than a process may have open files
    sources: list[ByteSource] = []
    try:
        for path in paths:
            if isinstance(path, ByteSource) or may_wait(path):
                sources.append(open_source(path, storage_options))
            else:
                refuse_folder(path)
                sources.append(pool.open(path))
        return ChunkedSource(sources, is_explicit=is_explicit)
    except BaseException:
        for source in sources:
            source.close()
        raise
