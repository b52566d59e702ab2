"""Scratch buffers for undecoded and half-decoded data, reused between calls.

Fresh memory costs a page fault per 4 KiB, which takes longer than decoding.
"""

_MAX_IDLE = 16
_MAX_KEPT_NBYTES = 1 << 24

# At most one buffer per thread that was ever active, up to a limit. list.pop and list.append are
# atomic, so the list needs no lock.
_idle: list[bytearray] = []


class Scratch:
    """Context manager that lends `nbytes` writable bytes with undefined content."""

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
        """Return the buffer to the pool, unless an error may still hold views of it."""
        self._view.release()
        if kind is None and len(self._buffer) <= _MAX_KEPT_NBYTES and len(_idle) < _MAX_IDLE:
            _idle.append(self._buffer)
