"""Lists of items in a file: paths, ids, and columns of metadata.

Paths are relative to a root. A row whose path leads out of it, or that is invalid in any other
way, yields a `BadItem` with the reason.
"""

import csv
import io
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

from ...exceptions import FormatError
from ...format.filekind import ARRAY_SUFFIXES, IMAGE_SUFFIXES, VIDEO_SUFFIXES
from ...storage.protocol import errors_at
from .items import (
    ArrayFile,
    BadItem,
    ImageFiles,
    ImageFolder,
    Item,
    VideoFile,
    check_inside,
    suffix_of,
)

Path = str | os.PathLike[str]

TABLE_SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson")
# Lists are read into memory whole.
_MAX_NBYTES = 1 << 31


def listed(
    path: Path,
    *,
    root: Path | None = None,
    path_column: str = "path",
    id_column: str = "id",
    frame_rate: float | None = None,
    outside: bool = False,
) -> Sequence[Item]:
    """Return an item for each row of a list file.

    Parameters
    ----------
    path : str or PathLike
        ``.csv`` (with a header; separated by commas, semicolons or tabs), ``.tsv``, ``.json`` (an
        array of objects) or ``.jsonl`` (one object per line). UTF-8.
    root : str or PathLike, optional
        Folder that paths are relative to; by default the folder of the list.
    path_column : str, optional
        Column with the path of an image, a video, a ``.npy`` file or a folder of images. In JSON it
        may be a list of images, the frames in order.
    id_column : str, optional
        Column with the id. If it is empty, or no row has "id", the id is the path without its
        suffix. All other columns become metadata: strings, or in JSON values of any type.
    frame_rate : float, optional
        Frames per second of videos, as in `videos`.
    outside : bool, optional
        Accept paths that lead out of `root`, including absolute paths.

    Raises
    ------
    FormatError
        The file is not a list of one of these forms.
    OSError
        The file cannot be read.
    """
    name = os.fspath(path)
    top = os.path.dirname(name) or os.curdir if root is None else os.fspath(root)
    reader = _Rows(top, path_column, id_column, frame_rate, outside)
    with errors_at(name, whole=""):
        rows = list(_read_rows(name, path_column))
        has_ids = any(isinstance(row, dict) and id_column in row for _, row in rows)
        if rows and not has_ids and id_column != "id":  # which a list may lack
            raise FormatError(f"no column {id_column!r:.80} of ids in any row")
        return [reader.item(number, row) for number, row in rows]


def _read_rows(name: str, path_column: str) -> Iterable[tuple[int, Any]]:
    """Return (number, row) for each row; a row that does not parse is a FormatError."""
    suffix = suffix_of(name)
    if suffix not in TABLE_SUFFIXES:
        raise FormatError(f"a list file must be one of {', '.join(TABLE_SUFFIXES)}")
    if os.path.getsize(name) > _MAX_NBYTES:
        raise FormatError("the list is larger than 2 GiB")
    try:
        # Spreadsheets write a byte order mark, which would be a part of the first column's name.
        with open(name, encoding="utf-8-sig", newline="") as file:
            text = file.read()
    except UnicodeDecodeError as err:
        raise FormatError(f"not UTF-8 at byte {err.start}", offset=err.start) from err
    if suffix in (".csv", ".tsv"):
        return _parse_csv(text, "\t" if suffix == ".tsv" else None, path_column)
    try:
        if suffix != ".json":
            # Not splitlines(): U+2028 and others are valid inside a string of JSON.
            lines = enumerate(text.split("\n"), 1)
            return [(number, json.loads(line)) for number, line in lines if line.strip()]
        found = json.loads(text)
    except (ValueError, RecursionError) as err:
        raise FormatError(f"not JSON: {err}") from err
    if not isinstance(found, list):
        raise FormatError(f"expected an array of objects, got {type(found).__name__}")
    return enumerate(found, 1)


def _parse_csv(text: str, delimiter: str | None, path_column: str) -> list[tuple[int, Any]]:
    if delimiter is None:  # spreadsheets write semicolons where the comma is the decimal sign
        delimiter = max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[tuple[int, Any]] = []
    try:
        columns = next(reader, [])
        for fields in reader:
            row: Any = dict(zip(columns, fields, strict=False))
            if len(fields) != len(columns):
                row = FormatError(f"{len(fields)} fields, but the header has {len(columns)}")
            if fields:
                rows.append((reader.line_num, row))
    except csv.Error as err:
        raise FormatError(f"line {reader.line_num}: {err}") from err
    names = f"{', '.join(columns):.200}"
    if path_column not in columns:
        raise FormatError(f"no column {path_column!r} among {names}")
    if len(set(columns)) < len(columns):
        raise FormatError(f"two columns have the same name: {names}")
    return rows


class _Rows:
    """Converts the rows of a list to items."""

    def __init__(
        self,
        root: str,
        path_column: str,
        id_column: str,
        frame_rate: float | None,
        outside: bool,
    ) -> None:
        self._root = root
        self._folder = os.path.realpath(root)
        self._path_column = path_column
        self._id_column = id_column
        self._frame_rate = frame_rate
        self._outside = outside

    def item(self, number: int, row: Any) -> Item:
        """Return the item of a row, or a `BadItem` if the row is invalid."""
        try:
            return self._item(row)
        except (ValueError, TypeError) as err:
            id_ = row.get(self._id_column) if isinstance(row, dict) else None
            named = id_ if isinstance(id_, str) else f"row {number}"
            return BadItem(id=named, name=f"row {number}", reason=str(err))

    def _item(self, row: Any) -> Item:
        if isinstance(row, FormatError):
            raise row
        if not isinstance(row, dict):
            raise TypeError(f"a row must be an object, got {row!r:.80}")
        meta = dict(row)
        given = meta.pop(self._path_column, None)
        several = isinstance(given, list)
        texts = given if several else [given]
        if not texts or not all(isinstance(text, str) and text for text in texts):
            raise ValueError(f"no path in {self._path_column!r}: {given!r:.80}")
        paths = tuple(self._resolve(text) for text in texts)
        id_ = meta.pop(self._id_column, None)
        if id_ is None or id_ == "":
            id_ = os.path.splitext(texts[0])[0]
        elif isinstance(id_, int) and not isinstance(id_, bool):
            id_ = str(id_)
        elif not isinstance(id_, str):
            raise TypeError(f"an id must be a string or an integer, not {id_!r:.80}")
        if several:
            return ImageFiles(id=id_, meta=meta, paths=paths)
        return self._of_one(id_, meta, paths[0])

    def _of_one(self, id_: str, meta: dict[str, Any], path: str) -> Item:
        suffix = suffix_of(path)
        if suffix in IMAGE_SUFFIXES:
            return ImageFiles(id=id_, meta=meta, paths=(path,))
        if suffix in VIDEO_SUFFIXES:
            return VideoFile(id=id_, meta=meta, path=path, frame_rate=self._frame_rate)
        if suffix in ARRAY_SUFFIXES:
            return ArrayFile(id=id_, meta=meta, path=path)
        return ImageFolder(id=id_, meta=meta, path=path, root=None if self._outside else self._root)

    def _resolve(self, text: str) -> str:
        """Return the location of a path of the list."""
        if "\0" in text:
            raise ValueError(f"the path contains a NUL: {text!r:.200}")
        path = os.path.join(self._root, text)
        if not self._outside:
            check_inside(path, self._root, self._folder)
        return path
