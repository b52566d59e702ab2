"""Parts of a chunk from the stored bytes of their blocks alone.

For chunks whose checksum was compared, or need not be: a block has none of its own.
"""

from ..codec import ChunkHeader, decode_blocks_into, extent_of_range
from ..exceptions import CodecError, FormatError
from ..storage.protocol import ByteSource
from ..wire import BytesLike
from .stored import PROBE_NBYTES


def read_head(source: ByteSource, offset: int, nbytes: int) -> bytes:
    """Return the Blosc header and the block starts of the chunk of `nbytes` at `offset`.

    Raises
    ------
    FormatError
        No such chunk is there.
    """
    head = source.read_at(offset, PROBE_NBYTES)
    header = ChunkHeader.unpack(head)
    if header.head_size > len(head):
        head = source.read_at(offset, header.head_size)
    if header.nbytes != nbytes:
        raise FormatError(f"decodes to {header.nbytes} bytes, not {nbytes}", offset=offset)
    return bytes(head[: header.head_size])


def read_blocks_into(
    source: ByteSource, head: tuple[int, bytes], start: int, out: BytesLike
) -> bool:
    """Read and decode the blocks of bytes ``start`` to ``start + len(out)`` of a chunk.

    Parameters
    ----------
    source : ByteSource
        The file.
    head : (int, bytes)
        Offset of the chunk, and what `read_head` gives.

    Returns
    -------
    bool
        False where the whole chunk is needed: its codec has no such blocks, or it is not what it
        was. Then whoever reads all of it finds the words for it.
    """
    offset, front = head
    try:
        low, high = extent_of_range(front, start, start + len(out))
        if low == 0:
            return False
        stored = source.read_at(offset + low, high - low)
        if len(stored) < high - low:
            return False
        decode_blocks_into(front, stored, low, start, out)
    except CodecError:
        return False
    return True
