"""Memory that is used again: buffers for what is read or half decoded, kept between calls.

Fresh memory costs a page fault for every 4 KiB, which is more than decoding takes.
"""

from collections.abc import Iterator
from contextlib import contextmanager

_MAX_IDLE = 16
_MAX_KEPT_NBYTES = 1 << 24

# As many as threads ever worked at once, up to a limit. Popping from and appending to a list is one
# step for all threads.
_idle: list[bytearray] = []


@contextmanager
def scratch(nbytes: int) -> Iterator[memoryview]:
    """Give `nbytes` bytes to write to during the block; what they hold before is undefined."""
    try:
        buffer = _idle.pop()
    except IndexError:
        buffer = bytearray(nbytes)
    if len(buffer) < nbytes:
        buffer = bytearray(nbytes)
    with memoryview(buffer) as whole, whole[:nbytes] as view:
        yield view
    if len(buffer) <= _MAX_KEPT_NBYTES and len(_idle) < _MAX_IDLE:
        _idle.append(buffer)
