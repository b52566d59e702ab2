"""Where the samples of a track lie: what stsz, stsc and stco or co64 say together.

Chunks are runs of samples that lie one behind the other; stco has where each begins, stsc how many
samples the chunks have, stsz how large the samples are (ISO/IEC 14496-12, 8.7.3 to 8.7.5). In
Benzina's own files every sample is a chunk, and then the tables are used as they are stored.
"""

from typing import Any, TypeAlias

import numpy as np

from ..exceptions import FormatError

IntArray: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
# Unsigned, in any byte order.
Table: TypeAlias = np.ndarray[Any, np.dtype[Any]]

# Beyond any file, and far enough from the end of int64 that sizes may be added.
_FAR = 1 << 62


class Chunking:
    """Which chunk a sample is in.

    Parameters
    ----------
    runs : ndarray of uint32, shape (n, 3)
        The entries of stsc: the first chunk of a run, counted from 1, the samples of each of its
        chunks, and their description.
    nchunks : int
        Entries of stco or co64.
    count : int
        Samples that stsz has.

    Attributes
    ----------
    is_plain : bool
        Whether every chunk has one sample.

    Raises
    ------
    FormatError
        The three do not fit together.
    """

    def __init__(self, runs: Table, nchunks: int, count: int) -> None:
        if not nchunks:  # then an entry is as good as none
            runs = runs[:0]
        first = runs[:, 0].astype(np.int64) - 1
        per_chunk = runs[:, 1].astype(np.int64)
        lengths = np.diff(np.append(first, nchunks))
        if (lengths <= 0).any() or (per_chunk == 0).any() or (first[:1] != 0).any():
            raise FormatError(
                f"stsc: its runs do not divide the {nchunks} chunks of stco", field="stsc"
            )
        # The factors are under 2**32, what they make is not: as Python's integers.
        held = sum(map(int.__mul__, lengths.tolist(), per_chunk.tolist()))
        if held != count:
            raise FormatError(
                f"stsc: {nchunks} chunks of stco hold {held} samples, stsz has {count}",
                field="stsc",
            )
        self._first_chunk, self._per_chunk = first, per_chunk
        # The first sample of each run.
        self._first = np.cumsum(lengths * per_chunk) - lengths * per_chunk
        self.is_plain = bool((per_chunk == 1).all())

    def place(self, indices: IntArray) -> tuple[IntArray, IntArray]:
        """Return the chunk of each sample, and how many samples of it are before this."""
        run = np.searchsorted(self._first, indices, side="right") - 1
        chunk, before = np.divmod(indices - self._first[run], self._per_chunk[run])
        return self._first_chunk[run] + chunk, before


class Locations:
    """Offset and size of each sample of a track.

    Parameters
    ----------
    count : int
        Number of samples.
    sizes : int or ndarray of uint32
        The size of all, or of each.
    chunks : ndarray of uint32 or uint64
        Where each chunk begins.
    chunking : Chunking
        Which chunk each sample is in.
    """

    def __init__(self, count: int, sizes: int | Table, chunks: Table, chunking: Chunking) -> None:
        self._count = count
        self._sizes = sizes
        self._chunks = chunks
        self._chunking = chunking
        self._is_plain = chunking.is_plain
        # Where each sample would end, lay all of them together from 0.
        self._ends: IntArray = np.zeros(0, np.int64)
        if not isinstance(sizes, int) and not self._is_plain:
            self._ends = np.cumsum(sizes, dtype=np.int64)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[int, int]:
        """Return absolute offset and size of a sample, ``0 <= index < len(self)``."""
        sizes = self._sizes
        size = sizes if isinstance(sizes, int) else sizes.item(index)
        if self._is_plain:
            return self._chunks.item(index), size
        return int(self.offsets(np.array([index]))[0]), size

    def sizes(self, indices: IntArray) -> IntArray:
        """Return the sizes of samples, int64."""
        if isinstance(self._sizes, int):
            return np.full(len(indices), self._sizes, np.int64)
        return self._sizes[indices].astype(np.int64)

    def offsets(self, indices: IntArray) -> IntArray:
        """Return the absolute offsets of samples, int64; one that this cannot hold as 2**62."""
        if self._is_plain:
            return _as_int64(self._chunks[indices])
        chunks, before = self._chunking.place(indices)
        starts = _as_int64(self._chunks[chunks])
        if isinstance(self._sizes, int):
            return starts + before * self._sizes
        # From the first sample of the chunk to this one.
        first = self._ends[indices - before] - self._sizes[indices - before]
        return starts + (self._ends[indices] - self._sizes[indices] - first)


def _as_int64(offsets: Table) -> IntArray:
    if offsets.dtype.itemsize == 8:
        offsets = np.minimum(offsets, _FAR)
    converted: IntArray = offsets.astype(np.int64)
    return converted
