"""What was found in a file: each fault, with the bytes and the rows that it concerns."""

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
        The error in words.
    index : int or None
        The chunk, of a Benzina dataset the sample; None for the header, the metadata, the offset
        table and the trailer.
    offset, end : int or None
        The bytes of the file that are damaged, ``offset <= byte < end``; None where not known.
    first, last : int or None
        The decoded bytes that are lost, ``first <= byte < last``; None if none are.
    rows : (int, int) or None
        The rows they belong to, start and stop, along the axis an append grows: the first, of a
        Fortran-ordered array the last. None if the file holds no array, or no rows are lost.
    clip : str or None
        Of a frame store: the id of the clip that is damaged; None if none is.
    frames : (int, int) or None
        Which of its frames are lost, start and stop; None if the clip can be read as it was.
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
        """Return one line: what, where, and what is lost."""
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
    """What `verify` or `recover` found.

    Attributes
    ----------
    path : str or None
        The file; None for memory.
    nchunks, nbytes : int
        Chunks the header (of a frame store the index) promises, and their decoded size; 0 if that
        cannot be known. Of a Benzina dataset its samples, and their bytes.
    damage : list of Damage
        In file order; empty for a sound file. What is left of it after a repair.
    trailer : str
        "valid", "absent", "stale" (another program changed the file and took no notice of it) or
        "damaged"; of a frame store this is about its index.
    notices : list of str
        What is no damage but worth knowing, and what was done.
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
        """Whether the file is sound; from `recover`, whether nothing is missing."""
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
    """The rows of an array by its decoded bytes; of a file without an array there are none.

    Attributes
    ----------
    nbytes : int
        Bytes of a row; 0 without an array, or of one that has no rows.
    count : int
        Rows there are.
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
        """Return the rows, start and stop, that decoded bytes `first` to `last` belong to."""
        if not self.nbytes:
            return None
        stop = min(-(-last // self.nbytes), self.count)
        return min(first // self.nbytes, stop), stop


def merged(ranges: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield ascending ranges with those joined that touch or overlap."""
    start, stop = -1, -1
    for one, two in sorted(ranges):
        if one > stop:
            if stop >= 0:
                yield start, stop
            start, stop = one, two
        stop = max(stop, two)
    if stop >= 0:
        yield start, stop
