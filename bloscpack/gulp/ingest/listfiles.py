"""Readers of files that list items: JSON, CSV, and lists of paths. Errors name file and line."""

import csv
import gzip
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from ...plugin import FormatError, errors_at

Path = str | os.PathLike[str]
Entry = dict[str, Any]


def read_json(path: Path) -> Any:
    """Return the value in a JSON file."""
    with open(path, "rb") as file, errors_at(path, whole=""):
        return _load(file)


def read_gz_json(path: Path) -> Any:
    """Return the value in a JSON file compressed with gzip."""
    with gzip.open(path, "rb") as file, errors_at(path, whole=""):
        try:
            return _load(file)
        except (EOFError, gzip.BadGzipFile, zlib.error) as err:
            raise FormatError(f"not gzip: {err}") from err


def _load(file: Any) -> Any:
    try:
        return json.load(file)
    except (ValueError, RecursionError) as err:
        raise FormatError(f"not JSON: {err}") from err


def entries_of(path: Path, content: Any, *keys: str) -> list[Entry]:
    """Return `content` after checking that it is a list of objects with `keys`."""
    if not isinstance(content, list):
        raise FormatError("expected a list of objects").at(path=path, whole="")
    for number, entry in enumerate(content):
        missing = [key for key in keys if not isinstance(entry, dict) or key not in entry]
        if missing:
            raise FormatError(f"entry {number} has no {missing[0]!r}").at(path=path, whole="")
    return content


def objects_of(path: Path, content: Any) -> dict[str, Entry]:
    """Return `content` after checking that it is an object of objects."""
    if not isinstance(content, dict) or not all(isinstance(v, dict) for v in content.values()):
        raise FormatError("expected an object of id: object").at(path=path, whole="")
    return content


@contextmanager
def _open_text(path: Path, newline: str | None = None) -> Iterator[TextIO]:
    """Open a list for reading; text that cannot be read is a FormatError with the path."""
    with open(path, newline=newline, encoding="utf-8-sig") as file:
        try:
            yield file
        except UnicodeDecodeError as err:
            raise FormatError(f"not UTF-8 text: {err.reason}").at(path=path, whole="") from err
        except csv.Error as err:
            raise FormatError(f"not CSV: {err}").at(path=path, whole="") from err


def read_csv(path: Path, *, label: str | None = None) -> list[Entry]:
    """Return the rows ``id;label`` of a file; rows without a label get `label`."""
    entries = []
    with _open_text(path, newline="") as file:
        rows = csv.reader(file, delimiter=";")
        for row in rows:
            if len(row) == 1 and label is not None:
                entries.append({"id": row[0], "label": label})
            elif len(row) == 1:
                raise FormatError(f"{os.fspath(path)}, line {rows.line_num}: no label after a ';'")
            elif row:
                entries.append({"id": row[0], "label": row[1]})
    return entries


def read_image_list(path: Path) -> list[Entry]:
    """Return the lines ``path,label`` of a file, with blanks around both removed."""
    entries = []
    with _open_text(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            image, comma, label = (part.strip() for part in line.rpartition(","))
            if not (image and comma and label):
                raise FormatError(f"{os.fspath(path)}, line {number}: expected 'path,label'")
            id_ = os.path.basename(f"{label}-{image}")
            entries.append({"id": id_, "label": label, "path": image})
    return entries
