"""Reports of faults in a file, each with the bytes and rows it affects."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from ..array.layout import describe_array
from ..container.reader import Container
from ..exceptions import BloscpackError


@dataclass(frozen=True, slots=True)
class Damage:
    """One fault of a file.

    Attributes
    ----------
    what : str
        Description of the fault.
    index : int or None
        Ordinal of the chunk, or of the sample of a Benzina dataset; None for the header, the
        metadata, the offset table and the trailer.
    offset, end : int or None
        Damaged bytes of the file, ``offset <= byte < end``; None if unknown.
    first, last : int or None
        Decoded bytes that are lost, ``first <= byte < last``; None if no byte is lost.
    rows : (int, int) or None
        Rows of the lost bytes, start and stop, along the axis that appending extends: the first, or
        the last of a Fortran-ordered array. None without an array, or if no row is lost.
    clip : str or None
        Id of the damaged clip of a frame store.
    frames : (int, int) or None
        Frames of the clip that are lost, start and stop; None if the clip can still be read.
    """

    what: str
    index: int | None = None
    offset: int | None = None
    end: int | None = None
    first: int | None = None
    last: int | None = None
    rows: tuple[int, int] | None = None
    clip: str | None = None
    frames: tuple[int, int] | None = None

    def __str__(self) -> str:
        """Return one line: the fault, its place, and the loss."""
        text = self.what
        place = f"bytes {self.offset} to {self.end}"
        if self.offset is not None and self.end is not None and place not in text:
            text += f" ({place} of the file)"
        if self.first is None:
            return text
        rows = "" if self.rows is None else f", rows {self.rows[0]} to {self.rows[1]}"
        return f"{text} (lost: decoded bytes {self.first} to {self.last}{rows})"


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """Result of `verify` or `recover`.

    Attributes
    ----------
    path : str or None
        Path of the file; None for memory.
    nchunks, nbytes : int
        Number of chunks in the header, or in the index of a frame store, and their decoded size; 0
        if unknown. For a Benzina dataset, its samples and their bytes.
    damage : list of Damage
        Faults in file order, empty for a sound file; after a repair, those that are left.
    trailer : str
        "valid", "absent", "damaged" or "stale" (a program that does not maintain it has changed the
        file). For a frame store this is the state of its index.
    notices : list of str
        Observations that are not damage, and repairs.
    saved : int or None
        Chunks that `recover` has saved; None from `verify`.
    """

    path: str | None
    nchunks: int
    nbytes: int
    damage: list[Damage] = field(default_factory=list)
    trailer: str = "absent"
    notices: list[str] = field(default_factory=list)
    saved: int | None = None

    @property
    def ok(self) -> bool:
        """Whether the file is sound, or after `recover` whether no data are missing."""
        return not self.damage

    def __repr__(self) -> str:
        faults = len(self.damage)
        state = "ok" if self.ok else f"{faults} fault{'s' if faults > 1 else ''}"
        saved = "" if self.saved is None else f"{self.saved} saved of "
        return (
            f"<bloscpack.Report {self.path or 'memory'!r}: {state}, {saved}{self.nchunks} chunks, "
            f"{self.nbytes} bytes, trailer {self.trailer}>"
        )

    def __str__(self) -> str:
        """Return a line for the file, one for each fault, and one for each notice."""
        return "\n  ".join((repr(self)[1:-1], *map(str, self.damage), *self.notices))


class Rows:
    """Rows of an array by their decoded bytes; 0 rows without an array.

    Attributes
    ----------
    nbytes : int
        Bytes of a row; 0 without an array, or for an array without rows.
    count : int
        Number of rows.
    """

    def __init__(self, container: Container) -> None:
        self.nbytes = self.count = 0
        try:
            dtype, shape, is_fortran = describe_array(container)
        except (BloscpackError, ImportError):
            return
        if shape:
            stored = shape[::-1] if is_fortran else shape
            self.nbytes = prod(stored[1:]) * dtype.itemsize
            self.count = stored[0]

    def spanned(self, first: int, last: int) -> tuple[int, int] | None:
        """Return the rows, start and stop, that hold decoded bytes `first` to `last`."""
        if not self.nbytes:
            return None
        stop = min(-(-last // self.nbytes), self.count)
        return min(first // self.nbytes, stop), stop


def merged(ranges: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield ascending ranges, with those joined that touch or overlap."""
    start, stop = -1, -1
    for one, two in sorted(ranges):
        if one > stop:
            if stop >= 0:
                yield start, stop
            start, stop = one, two
        stop = max(stop, two)
    if stop >= 0:
        yield start, stop
