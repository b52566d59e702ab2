"""Reports of faults in a file: each verification returns a `Report`, with a `Damage` per fault."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from ..parallel.imports import importing

if TYPE_CHECKING:
    from ..format.chunkgrid import ChunkGrid

# Faults that a report lists one by one; the rest are only counted.
MAX_DAMAGE = 1000
# Notices quote names from the file, which may be long.
_MAX_TEXT = 400


@dataclass(frozen=True, slots=True)
class Damage:
    """One fault of a file.

    Attributes
    ----------
    what : str
        Description of the fault.
    index : int or None
        Ordinal of the chunk, or of the sample of a dataset; None for the header, the
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
    region : tuple of (int, int) or None
        Indices of the lost items along each axis, start and stop, if the chunks form a grid.
    member : str or None
        Name of the damaged array of an archive, to which `index`, `rows` and the like belong;
        `offset` and `end` are those in the archive.
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
    region: tuple[tuple[int, int], ...] | None = None
    member: str | None = None

    def __str__(self) -> str:
        """Return one line: the fault, its place, and the loss."""
        text = self.what
        place = f"bytes {self.offset} to {self.end}"
        if self.offset is not None and self.end is not None and place not in text:
            text += f" ({place} of the file)"
        if self.first is None:
            return text
        rows = "" if self.rows is None else f", rows {self.rows[0]} to {self.rows[1]}"
        if self.region is not None:
            sides = ", ".join(f"{start}:{stop}" for start, stop in self.region)
            rows = f", indices [{sides}]"
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
        if unknown. For a dataset, its samples and their bytes.
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

    def _repr_html_(self) -> str:
        """Return a table of the faults for notebooks."""
        with importing:
            from ..display.notebook import report_card
        return report_card(self)

    def __str__(self) -> str:
        """Return a line for the file, one for each fault, and one for each notice."""
        return "\n  ".join((repr(self)[1:-1], *map(str, self.damage), *self.notices))


def region_of(
    grid: "ChunkGrid | None", first: int, stop: int
) -> tuple[tuple[int, int], ...] | None:
    """Return the smallest region with chunks `first` to `stop` of a grid; None without a grid."""
    if grid is None:
        return None
    one, two = grid.box(first), grid.box(stop - 1)
    sides = []
    for axis, (low, high) in enumerate(zip(one, two, strict=True)):
        same = all(a == b for a, b in zip(one[:axis], two[:axis], strict=True))
        sides.append((low.start, high.stop) if same else (0, grid.shape[axis]))
    return tuple(sides[:: -1 if grid.is_fortran else 1])


def message_of(err: Exception) -> str:
    """Return the message of an error without the path, which the report has."""
    return str(err.args[0]) if err.args else str(err)


def damage_of(
    err: Exception, index: int | None = None, offset: int | None = None, end: int | None = None
) -> Damage:
    """Return the damage that an error reports; by default at the offset that the error names."""
    where = getattr(err, "offset", None) if offset is None else offset
    return Damage(message_of(err), index, where, end)


class Findings:
    """Faults and notices found so far, by a whole verification or in a batch of records.

    `damage` lists the first `MAX_DAMAGE` faults, and `nfaults` counts all.
    """

    def __init__(self) -> None:
        self.damage: list[Damage] = []
        self.nfaults = 0
        self._notices = Counter[str]()

    def add(self, damage: Damage) -> None:
        """Add a fault."""
        self.nfaults += 1
        if len(self.damage) < MAX_DAMAGE:
            self.damage.append(damage)

    def note(self, text: str, count: int = 1) -> None:
        """Add a notice about some records; equal ones become one line with their number."""
        self._notices[text[:_MAX_TEXT]] += count

    def merge(self, batch: Self) -> None:
        """Add what was found in a batch."""
        for damage in batch.damage:
            self.add(damage)
        self.nfaults += batch.nfaults - len(batch.damage)
        self._notices += batch._notices

    def notices(self, unit: str) -> list[str]:
        """Return a line for each notice, with the number of records, in words `unit`."""
        lines = [
            f"{text} ({count} {unit}{'' if count == 1 else 's'})"
            for text, count in self._notices.items()
        ]
        if self.nfaults > len(self.damage):
            lines.append(f"{self.nfaults - len(self.damage)} more faults are not listed")
        return lines

    def report(
        self, unit: str, path: str | None, count: int, nbytes: int, saved: int | None = None
    ) -> Report:
        """Return the report on a file of `count` records, in words `unit`."""
        notices = self.notices(unit)
        return Report(path, count, nbytes, self.damage, notices=notices, saved=saved)
