"""Report of the faults found in a recording when it was opened."""

from dataclasses import dataclass

from .scan import Gap


@dataclass(frozen=True, slots=True)
class Report:
    """Faults that opening a recording repaired, and losses that it could not repair.

    Attributes
    ----------
    index_fault : str or None
        Why the records were found by their headers instead of the index; None if the index was
        used.
    gaps : tuple of Gap
        Bytes that do not belong to a record: damaged bytes, a truncated last record, junk at the
        end.
    nmissing : int
        Number of records in the index that lie beyond the end of the file.
    notes : tuple of str
        Other faults: a damaged description, numbered neighbours that do not belong to the file.
    """

    index_fault: str | None = None
    gaps: tuple[Gap, ...] = ()
    nmissing: int = 0
    notes: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether no fault was found."""
        return not self.lines()

    @property
    def _loss(self) -> str:
        """One-line summary of missing records and gaps; empty without any."""
        found = []
        if self.nmissing:
            found.append(_missing(self.nmissing))
        if self.gaps:
            first = self.gaps[0]
            found.append(
                f"{sum(gap.nbytes for gap in self.gaps)} bytes, the first at byte {first.offset}, "
                f"do not belong to a record ({first.reason})"
            )
        return ", and ".join(found)

    def lines(self) -> list[str]:
        """Return one line of text for each fault."""
        rebuilt = [f"index rebuilt: {self.index_fault}"] * (self.index_fault is not None)
        return rebuilt + self._losses()

    def _losses(self) -> list[str]:
        """Return the lines about what is not among the records."""
        found = []
        for offset, nbytes, reason in self.gaps:
            found.append(f"{nbytes} bytes from byte {offset} are not a record: {reason}")
        if self.nmissing:
            found.append(_missing(self.nmissing))
        return found + list(self.notes)

    def __str__(self) -> str:
        return "\n".join(self.lines()) or "no faults found"


def _missing(nrecords: int) -> str:
    return f"{nrecords} records of the index lie beyond the end of the file"
