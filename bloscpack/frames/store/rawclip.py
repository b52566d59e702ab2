"""A clip of raw frames: uncompressed, adjacent, and read by position into the result.

A chunk of one or more frames is compared with its digest when it is first read; the index keeps
note of that. The digests of all chunks follow the last frame, and are read once.

Frames of a local file are first read by position, into the result. Later they are copied from a map
of the file if they are still in memory, which takes two thirds of the time (`ext/resident.pyx`).
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np
from xxhash import xxh3_64_digest

from ...exceptions import FormatError, TruncatedError
from ...storage.batch import Piece, fetch
from ...storage.protocol import ByteSource
from ...types import AnyArray, IntArray
from ..protocol import FrameSelection, check_out, frame_indices, read_clip
from .clip import Store, StoreClip
from .format import DIGEST_SIZE
from .index import Index

# Largest run of frames per read in a batch, so that several threads can share the reads.
_RUN_NBYTES = 1 << 20


class RawClip(StoreClip):
    """A clip of raw frames; see `StoreClip`."""

    __slots__ = ("_digests", "_digests_at", "_start", "_verified")

    def __init__(
        self, store: Store, source: ByteSource, index: Index, id_: str, ordinal: int
    ) -> None:
        super().__init__(store, source, index, id_, ordinal)
        nchunks = len(self._cbytes)
        if any(self._filters) or self._cbytes != [*map(self._chunk_nbytes, range(nchunks))]:
            raise FormatError(
                f"clip {id_!r:.80}: raw frames of {self._frame_nbytes} bytes, with chunks of other "
                "sizes or with filters"
            )
        self._start = self._offsets[0] if nchunks else 0
        self._digests_at = self._start + self._nframes * self._frame_nbytes
        self._digests = b""
        self._verified = index.verified_of(ordinal, nchunks)

    def read(
        self,
        selection: FrameSelection = None,
        *,
        out: AnyArray | None = None,
        reduce: int = 1,
        copy: bool = True,
    ) -> AnyArray:
        """Read frames; see `StoreClip.read`."""
        # Cached frames are copied in 10 us or less, so nothing may come before that costs as much.
        if self._source.has_latency or not copy or reduce != 1:
            return super().read(selection, out=out, reduce=reduce, copy=copy)
        self._store._check_open()
        if type(selection) is int and out is None:
            frame = self._read_one(selection)
            return read_clip(self, selection, out=None, nthreads=1) if frame is None else frame
        indices: Sequence[int]
        if selection is None or type(selection) is slice:
            indices, is_single = range(self._nframes)[selection or slice(None)], False
        else:
            picked, is_single = frame_indices(selection, self._nframes)
            indices = picked.tolist()
        shape = self.shape[1:] if is_single else (len(indices), *self.shape[1:])
        frames: AnyArray = (
            np.empty(shape, self.dtype) if out is None else check_out(out, shape, self)
        )
        if frames.flags.c_contiguous and self._is_verified(indices):
            if type(indices) is range:
                numbers: IntArray = np.arange(
                    indices.start, indices.stop, indices.step, dtype=np.int64
                )
            else:
                numbers = np.array(indices, np.int64)
            pieces = self._uncached_pieces(numbers, frames)
            if pieces:
                work = self.decode_cost * frames.nbytes
                fetch(pieces, nthreads=self._store.nthreads, nbytes=work)
            return frames
        return read_clip(self, selection, out=frames, nthreads=self._store.nthreads)

    def _read_one(self, index: int) -> AnyArray | None:
        """Read a frame whose digest was compared before; return None in any other case."""
        if index < 0:
            index += self._nframes
        if not 0 <= index < self._nframes or not (
            self._verified[index // self._format.group] or not self._store.verify
        ):
            return None
        frame: AnyArray = np.empty(self._format.shape, self.dtype)
        place = np.array([self._place_of(index)], np.int64)
        copied = self._source.copy_cached(place, self._frame_nbytes, frame)
        return frame if copied else None

    def _place_of(self, index: int) -> int:
        """Return the offset of a frame."""
        return self._start + index * self._frame_nbytes

    def _is_verified(self, indices: Sequence[int]) -> bool:
        """Return whether no digest needs to be compared before frames are returned."""
        if not self._store.verify or not len(indices):
            return True
        group, verified = self._format.group, self._verified
        if not isinstance(indices, range):
            return all(verified[index // group] for index in indices)
        first, last = sorted((indices[0] // group, indices[-1] // group))
        step = abs(indices.step) if group == 1 else 1
        return 0 not in verified[first : last + 1 : step]

    def _uncached_pieces(self, indices: IntArray, frames: AnyArray) -> list[Piece]:
        """Copy verified frames that are in memory, and return the pieces of the others.

        A second thread does not make copies faster, and a piece for each frame would take as long
        as its copy.
        """
        if not frames.nbytes:
            return []
        nbytes, out = self._frame_nbytes, _bytes_of(frames)
        done = self._source.copy_cached(self._start + indices * nbytes, nbytes, out)
        if done == len(indices):
            return []
        return [*self._direct_pieces(_runs(indices[done:].tolist()), out[done * nbytes :])]

    def frame_shape(self, indices: IntArray) -> tuple[int, ...]:
        """Return the shape of the frames; all of their bytes are stored."""
        return self.shape[1:]

    def _view(self, selection: FrameSelection, out: AnyArray | None, reduce: int) -> AnyArray:
        """Return a read-only view of adjacent frames."""
        if out is not None or reduce != 1:
            raise ValueError("copy=False cannot be used with out or reduce")
        indices, is_single = frame_indices(selection, self._nframes)
        count = len(indices)
        if count > 1 and (np.diff(indices) != 1).any():
            raise ValueError(
                f"clip {self.id!r:.80}: copy=False needs adjacent frames in order, such as a slice "
                "with step 1"
            )
        shape = self.shape[1:] if is_single else (count, *self.shape[1:])
        nbytes = count * self._frame_nbytes
        first = int(indices[0]) if count else 0
        offset = self._place_of(first)
        view = self._source.map_at(offset, nbytes)
        if view is None:
            raise ValueError(
                f"clip {self.id!r:.80}: copy=False needs a store opened by the path of a local "
                "file or from bytes in memory"
            )
        if len(view) < nbytes:
            raise TruncatedError(
                f"{nbytes} bytes expected at offset {offset}; found {len(view)}", offset=offset
            ).at(*self._where(first))
        if count and not self._is_verified(range(first, first + count)):
            chunks = range(first // self._format.group, int(indices[-1]) // self._format.group + 1)
            self._verify(chunks)
        return np.ndarray(shape, self.dtype, view)

    def _verify(self, chunks: range) -> None:
        """Compare the digests of chunks. They are read by position: see `FileSource.map_at`."""
        checks = _Checks(self)
        pieces = [
            Piece(
                self._source, self._offsets[chunk], self._cbytes[chunk], partial(checks.add, chunk)
            )
            for chunk in chunks
            if not self._verified[chunk]
        ]
        fetch(
            [*pieces, *self._digests_pieces(checks)],
            nthreads=self._store.nthreads,
            nbytes=sum(piece.nbytes for piece in pieces),
        )

    def pieces(self, indices: IntArray, frames: AnyArray) -> Iterable[Piece]:
        """Return the pieces to fetch so that ``frames[k]`` becomes the frame ``indices[k]``.

        Verified frames that are in memory are copied at once.
        """
        if not frames.nbytes:
            return []
        numbers = indices.tolist()
        if self._is_verified(numbers):
            return self._uncached_pieces(indices, frames)
        return self._checked_pieces(_runs(numbers), _bytes_of(frames))

    def _direct_pieces(
        self, runs: Iterable[tuple[int, int, int]], out: memoryview
    ) -> Iterator[Piece]:
        """Yield pieces that are read into the result."""
        nbytes = self._frame_nbytes
        most = max(1, _RUN_NBYTES // nbytes)
        for place, first, count in runs:
            for skipped in range(0, count, most):
                start, length = place + skipped, min(most, count - skipped) * nbytes
                part = out[start * nbytes : start * nbytes + length]
                offset = self._place_of(first + skipped)
                yield Piece(self._source, offset, length, _ignore, part)

    def _checked_pieces(self, runs: Iterable[tuple[int, int, int]], out: memoryview) -> list[Piece]:
        """Return pieces of whole chunks, except where the digests were compared before."""
        group, nbytes = self._format.group, self._frame_nbytes
        verified: list[tuple[int, int, int]] = []
        wanted: dict[int, list[tuple[int, int, int]]] = {}
        for place, first, count in runs:
            stop = first + count
            while first < stop:
                chunk = first // group
                count = min(chunk * group + group, stop) - first
                if self._verified[chunk]:
                    verified.append((place, first, count))
                else:
                    wanted.setdefault(chunk, []).append((place, first - chunk * group, count))
                place, first = place + count, first + count
        checks = _Checks(self)
        pieces = [*self._direct_pieces(verified, out)]
        for chunk, parts in wanted.items():
            size = self._cbytes[chunk]
            place, _, count = parts[0]
            into = None
            take = partial(checks.add, chunk)
            if len(parts) == 1 and count * nbytes == size:
                into = out[place * nbytes : place * nbytes + size]
            else:
                copies = [(p * nbytes, inside * nbytes, n * nbytes) for p, inside, n in parts]
                take = partial(_copy_parts, take, out, copies)
            pieces.append(Piece(self._source, self._offsets[chunk], size, take, into))
        return [*pieces, *self._digests_pieces(checks)]

    def _digests_pieces(self, checks: "_Checks") -> list[Piece]:
        """Return the piece of the digests if they were not read before."""
        if self._digests:
            return []
        size = DIGEST_SIZE * len(self._cbytes)
        return [Piece(self._source, self._digests_at, size, checks.take_digests)]


class _Checks:
    """Digests of chunks that were read, compared as soon as the stored digests have been read.

    Those may arrive last, and other threads may add chunks at the same time: a digest is always
    added before the stored ones are looked for, and those are set before the others are looked for.
    """

    __slots__ = ("_clip", "_found")

    def __init__(self, clip: RawClip) -> None:
        self._clip = clip
        self._found: list[tuple[int, bytes]] = []

    def add(self, chunk: int, stored: memoryview) -> None:
        """Take a chunk that was read."""
        self._found.append((chunk, xxh3_64_digest(stored)))
        if self._clip._digests:
            self._compare()

    def take_digests(self, stored: memoryview) -> None:
        """Take the stored digests of all chunks of the clip."""
        self._clip._digests = bytes(stored)
        self._compare()

    def _compare(self) -> None:
        clip = self._clip
        wrong: list[tuple[int, bytes, bytes]] = []
        while self._found:
            try:
                chunk, actual = self._found.pop()
            except IndexError:  # another thread took the last one
                break
            digest = clip._digests[DIGEST_SIZE * chunk : DIGEST_SIZE * (chunk + 1)]
            if digest == actual:
                clip._verified[chunk] = 1
            else:
                wrong.append((chunk, digest, actual))
        if wrong and clip._store.verify:
            raise clip._mismatch(*min(wrong))


def _bytes_of(frames: AnyArray) -> memoryview:
    return frames.reshape(-1).view(np.uint8).data


def _runs(indices: list[int]) -> list[tuple[int, int, int]]:
    """Return the place of the first frame, its index and the number of each run of frames."""
    runs = []
    start = 0
    for place in range(1, len(indices) + 1):
        if place == len(indices) or indices[place] != indices[place - 1] + 1:
            runs.append((start, indices[start], place - start))
            start = place
    return runs


def _ignore(stored: memoryview) -> None:
    """Take bytes that are in their place."""


def _copy_parts(
    check: partial[None],
    out: memoryview,
    copies: list[tuple[int, int, int]],
    stored: memoryview,
) -> None:
    """Copy the frames that are wanted of a chunk, and compare its digest."""
    check(stored)
    for place, inside, nbytes in copies:
        out[place : place + nbytes] = stored[inside : inside + nbytes]
