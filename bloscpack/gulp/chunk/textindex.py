"""The index of a chunk as text, of which only the places of its items are noted.

An index of a million frames is 23 MB of text and 170 MB of Python objects. So the text is kept, one
pass finds where each item has its triplets and its metadata, and those are parsed when the item is
used. Text that is not laid out as GulpIO2 writes it is parsed and written anew that way. Pure.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ...exceptions import FormatError
from .format import MAX_OFFSET, decode_text, dump_meta, frame_info, load_meta

Triplets = np.ndarray[Any, np.dtype[np.int64]]

# Nothing is matched twice: the repetitions give nothing back.
_NUMBER = r"-?(?:0|[1-9][0-9]{0,17}+)"
_TRIPLET = rf"\[{_NUMBER}, {_NUMBER}, {_NUMBER}\]"
_TRIPLETS = rf"\[(?:{_TRIPLET}(?:, {_TRIPLET})*+)?\]"
_ID = r'"([^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+)"'
_ITEM = re.compile(_ID + rf': \{{"frame_info": (null|{_TRIPLETS}), "meta_data": ')
_scan_value = json.JSONDecoder().raw_decode
# In place of a triplet that is none: no frame lies there.
_NOWHERE = (-1, -1, -1)


class ItemPlace(NamedTuple):
    """Where an item is in the text of an index.

    Attributes
    ----------
    id : str
        Of the item.
    frames : tuple of int
        First position of its triplets, and the one behind them.
    meta_data : tuple of int
        The same of its metadata.
    """

    id: str
    frames: tuple[int, int]
    meta_data: tuple[int, int]


def scan_index(data: bytes) -> tuple[str, list[ItemPlace]]:
    """Return the text of an index, and where its items are in it.

    Raises
    ------
    FormatError
        It is not JSON, no object of objects, or has an id twice.
    """
    text = decode_text(data)
    places = _scan(text)
    if places is None:
        text = _laid_out(load_meta(data))
        places = _scan(text)
        if places is None:
            raise FormatError("the index is no object of items")
    if len({place.id for place in places}) != len(places):
        raise FormatError("the index has an id more than once")
    return text, places


def _scan(text: str) -> list[ItemPlace] | None:
    """Return the places of the items; None if the text is not laid out as GulpIO2 does it."""
    try:
        return list(_items(text))
    except (ValueError, RecursionError):
        return None


def _items(text: str) -> Iterator[ItemPlace]:
    """Yield the places of the items; a ValueError where the layout is another."""
    if text == "{}":
        return
    if not text.startswith("{"):
        raise ValueError(0)
    at = 1
    while True:
        match = _ITEM.match(text, at)
        if match is None:
            raise ValueError(at)
        start = match.end()
        if not text.startswith(("[", "null"), start):
            raise ValueError(start)
        end: int = _scan_value(text, start)[1]
        id_ = match[1]
        if "\\" in id_:
            id_ = json.loads(f'"{id_}"')
        yield ItemPlace(id_, match.span(2), (start, end))
        if text.startswith("}}", end):
            if end + 2 != len(text):
                raise ValueError(end)
            return
        if not text.startswith("}, ", end):
            raise ValueError(end)
        at = end + 3


def _laid_out(items: Any) -> str:
    """Return the text of an index as GulpIO2 would write it; what is missing is null."""
    if not isinstance(items, dict):
        raise FormatError(f"the index is no object of items but a {type(items).__name__}")
    entries = {}
    for id_, item in items.items():
        frames = item.get("frame_info") if isinstance(item, dict) else None
        meta_data = item.get("meta_data") if isinstance(item, dict) else None
        entries[id_] = {
            "frame_info": _valid(frames) if isinstance(frames, list) else None,
            "meta_data": meta_data if isinstance(meta_data, list) else None,
        }
    try:
        return dump_meta(entries)
    except (ValueError, RecursionError) as err:
        raise FormatError(f"the index is no JSON that we write: {err}") from err


def _valid(triplets: list[Any]) -> list[tuple[int, ...]]:
    """Return what can be triplets; `_NOWHERE` instead of what cannot."""
    return [_checked(triplet) for triplet in triplets]


def _checked(triplet: Any) -> tuple[int, ...]:
    try:
        return frame_info(triplet)
    except FormatError:
        return _NOWHERE


def parse_triplets(text: str) -> Triplets:
    """Return the triplets in the text of an item.

    Returns
    -------
    ndarray of int64
        ``(T, 3)``: loc, pad and length of each frame, in bytes; all -1 where these are no place in
        a file.

    Raises
    ------
    FormatError
        There is no list of them.
    """
    if text == "null":
        raise FormatError("it has no list frame_info")
    triplets = np.array(json.loads(text), dtype=np.int64).reshape(-1, 3)
    loc, pad, length = triplets.T
    wrong = (loc < 0) | (pad < 0) | (pad > length) | (loc >= MAX_OFFSET) | (length >= MAX_OFFSET)
    triplets[wrong] = _NOWHERE
    return triplets


def parse_entries(text: str) -> list[Any] | None:
    """Return all metadata in the text of an item, of any type; None if there is no list."""
    entries: list[Any] | None = _parse_entries(text)
    return entries


def parse_meta_data(text: str) -> dict[str, Any]:
    """Return the metadata in the text of an item: the first of its list.

    Raises
    ------
    FormatError
        There is no list, it is empty, or its first entry is no object.
    """
    entries = _parse_entries(text)
    try:
        return dict(entries[0])
    except (TypeError, IndexError, ValueError) as err:
        raise FormatError("it has no object in meta_data") from err


def _parse_entries(text: str) -> Any:
    # The scan has parsed the text once, but perhaps from a caller less deep in calls.
    try:
        return json.loads(text)
    except RecursionError as err:
        raise FormatError(f"its meta_data is nested too deeply: {err}") from err
