"""Oracle: gathering pieces of bytes one by one."""

from collections.abc import Sequence


def gather(view: bytes, start: int, offsets: Sequence[int], nbytes: int) -> list[bytes] | int:
    """Return the bytes at each offset less `start`, or the index of the first incomplete piece."""
    found = []
    for k, offset in enumerate(offsets):
        at = offset - start
        if nbytes and not 0 <= at <= len(view) - nbytes:
            return k
        found.append(view[at : at + nbytes] if nbytes else b"")
    return found


def gather_ragged(
    view: bytes, start: int, offsets: Sequence[int], lengths: Sequence[int]
) -> list[bytes] | int:
    """Return the bytes of each extent, or the index of the first incomplete one."""
    found = []
    for k, (offset, length) in enumerate(zip(offsets, lengths, strict=True)):
        row = gather(view, start, [offset], length)
        if isinstance(row, int):
            return k
        found += row
    return found
