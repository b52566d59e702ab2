"""Description of a file, which ``blpk info`` prints as text or as JSON."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...exceptions import BloscpackError
from .output import printable
from .table import fields_text, plain_table, table_text


class Description(NamedTuple):
    """Description of a file.

    Attributes
    ----------
    document : mapping
        JSON fields; those of an array are left out of a description for text.
    fields : iterable of (str, object)
        Names and values as text; those of None are not printed.
    names, rows, right : sequence
        Names of the columns of a table, its rows, and the columns that are aligned to the right.
    more : iterable of str
        Lines below the table.
    classic : iterable of str
        Lines for a pipe, in place of all these.
    errors : sequence of BloscpackError
        Damage that was found.
    """

    document: Mapping[str, Any]
    fields: Iterable[tuple[str, object]]
    names: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    right: Collection[str] = ()
    more: Iterable[str] = ()
    classic: Iterable[str] = ()
    errors: Sequence[BloscpackError] = ()

    def lines(self, *, is_for_people: bool) -> Iterator[str]:
        """Yield the text; that for people is fitted to the terminal."""
        if self.classic and not is_for_people:
            yield from self.classic
            return
        if is_for_people:
            yield from fields_text(self.fields)
        else:
            shown = (each for each in self.fields if each[1] is not None)
            yield from (printable(f"{name}: {value}") for name, value in shown)
        if self.rows:
            yield ""
            make = table_text if is_for_people else plain_table
            yield from make(self.names, self.rows, right=self.right)
        yield from map(printable, self.more)
