"""File with some byte ranges replaced: as it was before a change, or as it will be after it."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from ..types import BytesLike
from .protocol import ByteSource


class Patch(NamedTuple):
    """Replacement for a byte range of the file."""

    # Range in the file.
    offset: int
    nbytes: int
    source: ByteSource | None  # source of the replacement; None for bytes of 0xff
    at: int = 0  # position of the replacement in `source`


class OverlaySource(ByteSource):
    """Source that reads the file `base` through patches, which must not overlap.

    `size` is that of the patched file; `owned` sources are closed with this one.
    """

    def __init__(
        self,
        base: ByteSource,
        patches: Iterable[Patch],
        size: int,
        owned: Iterable[ByteSource] = (),
    ) -> None:
        self.name: str | None = base.name
        self.node = base.node
        self.base = base
        self._patches = sorted(patch for patch in patches if patch.nbytes)
        self._size = size
        self._owned = tuple(owned)

    def add(self, patch: Patch) -> None:
        """Add a patch, which may extend the file."""
        self._patches = sorted([*self._patches, patch])
        self._size = max(self._size, patch.offset + patch.nbytes)

    def size(self) -> int:
        """Return the size of the patched file in bytes."""
        return self._size

    def read_at(self, offset: int, nbytes: int) -> BytesLike:
        """Return a copy if a patch is touched, else the result of the file itself."""
        stop = min(offset + nbytes, self._size)
        parts: list[BytesLike] = []
        position = offset
        for patch in self._patches:
            end = patch.offset + patch.nbytes
            if end <= position or patch.offset >= stop:
                continue
            if patch.offset > position:
                parts.append(self.base.read_at(position, patch.offset - position))
                position = patch.offset
            count = min(end, stop) - position
            if patch.source is None:
                parts.append(b"\xff" * count)
            else:
                parts.append(patch.source.read_at(patch.at + position - patch.offset, count))
            position += count
        if position < stop:
            parts.append(self.base.read_at(position, stop - position))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def hold(self, sequence: int) -> bool:
        """Keep the space of a version of a log, as the file itself does."""
        return self.base.hold(sequence)

    def place(self, head_nbytes: int = 0) -> Any:
        """Return the place of the file, which another process reads through patches of its own."""
        return self.base.place(head_nbytes)

    def duplicate(self) -> ByteSource | None:
        """Return another source for the file without patches."""
        return self.base.duplicate()

    def reopened(self) -> ByteSource | None:
        """Return another source for the file without patches."""
        return self.base.reopened()

    def replacement(self) -> ByteSource | None:
        """Return a source for another file that now has the name."""
        return self.base.replacement()

    def close(self) -> None:
        """Close the owned sources; idempotent."""
        for source in self._owned:
            source.close()
