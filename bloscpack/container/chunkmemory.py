"""What an open container remembers of its chunks, so that small reads stay small.

Whose checksum was compared, where the blocks of a chunk start, and the content of one chunk that
is read again and again. Everything here may be lost at any time and is found again: threads that
race on it lose a little work and nothing else.
"""

# Chunks whose block starts are remembered: some hundred bytes each.
_MAX_HEADS = 4096
# A usual block; the least that a read decodes.
_BLOCK_NBYTES = 1 << 15


class ChunkMemory:
    """The memory of one container.

    Parameters
    ----------
    nchunks : int
        Number of chunks, as far as the file can hold so many.
    """

    __slots__ = ("_checked", "_heads", "_kept", "_nchunks", "_run")

    def __init__(self, nchunks: int) -> None:
        self._nchunks = nchunks
        self._checked: bytearray | None = None
        self._heads: dict[int, tuple[int, bytes]] = {}
        self._kept: tuple[int, bytes] = (-1, b"")
        self._run: tuple[int, int] = (-1, 0)

    def is_checked(self, index: int) -> bool:
        """Return whether the checksum of chunk `index` was compared."""
        checked = self._checked
        return checked is not None and index < len(checked) and checked[index] != 0

    def set_checked(self, index: int) -> None:
        """Remember that the checksum of chunk `index` was compared."""
        if self._checked is None:
            self._checked = bytearray(self._nchunks)
        if index < len(self._checked):
            self._checked[index] = 1

    def head(self, index: int) -> tuple[int, bytes] | None:
        """Return the offset of chunk `index` and its header with the block starts, if known."""
        return self._heads.get(index)

    def set_head(self, index: int, offset: int, head: bytes) -> tuple[int, bytes]:
        """Remember them, and return them."""
        if len(self._heads) >= _MAX_HEADS:
            self._heads = {}
        self._heads[index] = found = (offset, head)
        return found

    def content(self, index: int) -> bytes | None:
        """Return the content of chunk `index` if it is the one that is kept."""
        kept, content = self._kept
        return content if kept == index else None

    def keep(self, index: int, content: bytes) -> None:
        """Keep the content of chunk `index` instead of another."""
        self._kept = index, content

    def count_run(self, index: int, nbytes: int) -> int:
        """Add a read of `nbytes` of chunk `index`; return about how much was decoded in a row.

        That is since another chunk was read; a read decodes at least a block.
        """
        last, total = self._run
        total = max(nbytes, _BLOCK_NBYTES) + (total if last == index else 0)
        self._run = index, total
        return total
