"""What was found wrong with a recording when it was opened, and what was done about it."""

from dataclasses import dataclass

from .scan import Gap


@dataclass(frozen=True, slots=True)
class Report:
    """What opening a recording repaired, and what it lost.

    Attributes
    ----------
    index_fault : str or None
        Why the index was not used and the records were found by their headers; None if it was used.
    gaps : tuple of Gap
        Bytes that belong to no record: damaged ones, a last one that is cut off, junk at the end.
    nmissing : int
        Records that the index lists and that lie beyond the end of the file.
    notes : tuple of str
        What else is wrong: a damaged description, numbered neighbours that do not belong.
    """

    index_fault: str | None = None
    gaps: tuple[Gap, ...] = ()
    nmissing: int = 0
    notes: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong."""
        return not self.lines()

    @property
    def _loss(self) -> str:
        """Missing records and gaps, summed up in one line; empty if there are none."""
        found = []
        if self.nmissing:
            found.append(_missing(self.nmissing))
        if self.gaps:
            first = self.gaps[0]
            found.append(
                f"{sum(gap.nbytes for gap in self.gaps)} bytes, the first at byte {first.offset}, "
                f"belong to no record ({first.reason})"
            )
        return ", and ".join(found)

    def lines(self) -> list[str]:
        """Return all of it as text, a line for each thing."""
        found = []
        if self.index_fault is not None:
            found.append(f"index rebuilt: {self.index_fault}")
        for offset, nbytes, reason in self.gaps:
            found.append(f"{nbytes} bytes from byte {offset} are no record: {reason}")
        if self.nmissing:
            found.append(_missing(self.nmissing))
        return found + list(self.notes)

    def __str__(self) -> str:
        return "\n".join(self.lines()) or "no faults found"


def _missing(nrecords: int) -> str:
    return f"{nrecords} records of the index lie beyond the end of the file"
