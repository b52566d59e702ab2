"""Cache of a container: one decoded chunk that is read repeatedly, and the heads of others."""

# Largest number of cached chunk heads, some hundred bytes each.
_MAX_HEADS = 4096
# Typical size of a block, the least that a read decodes.
_BLOCK_NBYTES = 1 << 15


class ChunkCache:
    """Cache of facts about the chunks of a container, so that small reads stay cheap.

    It holds where the blocks of a chunk start, and the content of one chunk that is read
    repeatedly. Every entry can be recomputed, so no lock is needed: threads that race lose a little
    work and nothing else.
    """

    # Defaults of the class, as every open file has a cache, and many are read once as a whole.
    _heads: dict[int, tuple[int, bytes]] | None = None
    _content: tuple[int, bytes] = (-1, b"")
    _run: tuple[int, int] = (-1, 0)

    def head(self, index: int) -> tuple[int, bytes] | None:
        """Return the offset of chunk `index` and its header with the block starts, if known."""
        return None if self._heads is None else self._heads.get(index)

    def set_head(self, index: int, offset: int, head: bytes) -> tuple[int, bytes]:
        """Store the offset and head of chunk `index`, and return both."""
        if self._heads is None or len(self._heads) >= _MAX_HEADS:
            self._heads = {}
        self._heads[index] = found = (offset, head)
        return found

    def content(self, index: int) -> bytes | None:
        """Return the content of chunk `index` if it is cached, else None."""
        cached, content = self._content
        return content if cached == index else None

    def keep(self, index: int, content: bytes) -> None:
        """Cache the content of chunk `index`, replacing that of another chunk."""
        self._content = index, content

    def is_repeated(self, index: int, nbytes: int, chunk_nbytes: int) -> bool:
        """Count a read that decodes `nbytes` of chunk `index`; return whether more are likely.

        They are after consecutive reads that together decoded the chunk twice. Each read counts as
        at least one block, the least that is decoded.
        """
        last, total = self._run
        total = max(nbytes, _BLOCK_NBYTES) + (total if last == index else 0)
        self._run = index, total
        return total > 2 * chunk_nbytes
