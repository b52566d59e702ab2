"""Memory that is used again: buffers for what is read or half decoded, kept between calls.

Fresh memory costs a page fault for every 4 KiB, which is more than decoding takes.
"""

_MAX_IDLE = 16
_MAX_KEPT_NBYTES = 1 << 24

# As many as threads ever worked at once, up to a limit. Popping from and appending to a list is one
# step for all threads.
_idle: list[bytearray] = []


class Scratch:
    """`nbytes` bytes to write to during a ``with`` block; what they hold before is undefined."""

    __slots__ = ("_buffer", "_view")

    def __init__(self, nbytes: int) -> None:
        try:
            buffer = _idle.pop()
        except IndexError:
            buffer = bytearray(nbytes)
        if len(buffer) < nbytes:
            buffer = bytearray(nbytes)
        self._buffer = buffer
        self._view = memoryview(buffer)[:nbytes]

    def __enter__(self) -> memoryview:
        """Return a view of the bytes, which is released when the block ends."""
        return self._view

    def __exit__(self, kind: object, *_: object) -> None:
        """Keep the memory, unless an error may still hold views of it."""
        self._view.release()
        if kind is None and len(self._buffer) <= _MAX_KEPT_NBYTES and len(_idle) < _MAX_IDLE:
            _idle.append(self._buffer)
