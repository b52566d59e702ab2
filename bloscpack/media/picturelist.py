"""List of the pictures that were written to a folder, in a file beside them."""

import csv
import io
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any, Self, TextIO

from ..storage import disk
from ..storage.folder.outputfolder import Folder

LISTS = {"csv": "samples.csv", "json": "samples.json"}
"""Formats of the list, with the names of their files."""


class Listing:
    """The list of pictures in a folder, one entry per picture; a context manager.

    `form` is "csv" or "json"; None writes no list. `fields` are the names of the values of an
    entry, for CSV.
    """

    def __init__(self, folder: Folder, form: str | None, fields: Sequence[str] = ()) -> None:
        self._form = form
        self._fields = fields
        self._begun = False
        self._stream: TextIO | None = None
        if form is not None:
            self._path = folder.path(LISTS[form])
            fd = folder.create(LISTS[form])
            self._stream = os.fdopen(fd, "w", encoding="utf-8", newline="")

    def __enter__(self) -> Self:
        if self._form == "csv":
            self._write_row(self._fields)
        return self

    def add(self, entry: dict[str, Any]) -> None:
        """Add a line."""
        if self._form == "csv":
            self._write_row(entry.values())
        else:
            self._write((",\n" if self._begun else "[\n") + json.dumps(entry))
        self._begun = True

    def _write_row(self, values: Iterable[Any]) -> None:
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(values)
        self._write(line.getvalue())

    def _write(self, text: str) -> None:
        if self._stream is not None:
            with disk.naming(self._path):
                self._stream.write(text)

    def __exit__(self, *exc: object) -> None:
        if self._stream is None:
            return
        with disk.naming(self._path), self._stream:  # closing flushes the buffer
            if self._form == "json":
                self._write("\n]\n" if self._begun else "[]\n")
