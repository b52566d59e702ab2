"""The index of a chunk as text, with the location of each item in the text.

An index of a million frames is 23 MB of text, or 170 MB of Python objects. Therefore the text is
kept, one pass locates the triplets and the metadata of each item, and they are parsed when the item
is used. Text in another layout than GulpIO2's is parsed, and serialized again in that layout. Pure.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from ...plugin import FormatError
from .format import MAX_OFFSET, decode_text, dump_meta, frame_info, load_meta

Triplets = np.ndarray[Any, np.dtype[np.int64]]

# Possessive repetitions: nothing is matched twice.
_NUMBER = r"-?(?:0|[1-9][0-9]{0,17}+)"
_TRIPLET = rf"\[{_NUMBER}, {_NUMBER}, {_NUMBER}\]"
_TRIPLETS = rf"\[(?:{_TRIPLET}(?:, {_TRIPLET})*+)?\]"
_ID = r'"([^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+)"'
_ITEM = re.compile(_ID + rf': \{{"frame_info": (null|{_TRIPLETS}), "meta_data": ')
_scan_value = json.JSONDecoder().raw_decode
# Replaces an invalid triplet: no frame is at that location.
_NOWHERE = (-1, -1, -1)


class ItemPlace(NamedTuple):
    """Location of an item in the text of an index."""

    id: str
    frames: tuple[int, int]  # start and end of the text of its triplets
    meta_data: tuple[int, int]  # start and end of the text of its metadata


def scan_index(data: bytes) -> tuple[str, list[ItemPlace]]:
    """Return the text of an index, and the location of its items."""
    text = decode_text(data)
    places = _scan(text)
    if places is None:
        text = _serialize(load_meta(data))
        places = _scan(text)
        if places is None:
            raise FormatError("the index is not an object of items")
    if len({place.id for place in places}) != len(places):
        raise FormatError("the index has an id more than once")
    return text, places


def scan_start(data: bytes) -> tuple[str, list[ItemPlace]]:
    """Return the text of a damaged index, and the location of the items before the damage.

    FormatError if there are none.
    """
    text, places = decode_text(data), list[ItemPlace]()
    with suppress(ValueError, RecursionError):
        for place in _items(text):
            places.append(place)  # those before an error are kept
    if not places:
        raise FormatError("no item is before the damage")
    return text, places


def unread_keys(text: str, data: bytes) -> Iterator[tuple[str, str]]:
    """Yield id and a short text for each key of an item that the `text` of `scan_index` lacks."""
    if text == decode_text(data):
        return
    for id_, item in load_meta(data).items():
        for key, value in item.items() if isinstance(item, dict) else ():
            is_list = isinstance(value, list | None)
            if key != "frame_info" and not (key == "meta_data" and is_list):
                yield id_, f"entry {key!r:.80} of clip {id_!r:.80}"


def _scan(text: str) -> list[ItemPlace] | None:
    """Return the locations of the items; None if the layout is not GulpIO2's."""
    try:
        return list(_items(text))
    except (ValueError, RecursionError):
        return None


def _items(text: str) -> Iterator[ItemPlace]:
    """Yield the locations of the items; raise ValueError if the layout is another."""
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


def _serialize(items: Any) -> str:
    """Return the text of an index in GulpIO2's layout; missing parts become null."""
    if not isinstance(items, dict):
        raise FormatError(f"the index is a {type(items).__name__}, not an object of items")
    entries = {}
    for id_, item in items.items():
        frames = item.get("frame_info") if isinstance(item, dict) else None
        meta_data = item.get("meta_data") if isinstance(item, dict) else None
        entries[id_] = {
            "frame_info": [*map(_check_triplet, frames)] if isinstance(frames, list) else None,
            "meta_data": meta_data if isinstance(meta_data, list) else None,
        }
    try:
        return dump_meta(entries)
    except (ValueError, RecursionError) as err:
        raise FormatError(f"the index cannot be written as JSON: {err}") from err


def _check_triplet(triplet: Any) -> tuple[int, ...]:
    """Return a triplet, or `_NOWHERE` if it is invalid."""
    try:
        return frame_info(triplet)
    except FormatError:
        return _NOWHERE


def parse_triplets(text: str) -> Triplets:
    """Parse the triplets of an item: loc, pad and length of each frame in bytes, int64 ``(T, 3)``.

    They are all -1 if these are not a valid location.
    """
    if text == "null":
        raise FormatError("it has no list frame_info")
    triplets = np.array(json.loads(text), dtype=np.int64).reshape(-1, 3)
    loc, pad, length = triplets.T
    wrong = (loc < 0) | (pad < 0) | (pad > length) | (loc >= MAX_OFFSET) | (length >= MAX_OFFSET)
    triplets[wrong] = _NOWHERE
    return triplets


def parse_entries(text: str) -> list[Any] | None:
    """Parse all metadata of an item, of any type; None if the text is not a list."""
    # The text was parsed once by the scan, but possibly with more stack space left.
    try:
        entries: list[Any] | None = json.loads(text)
    except RecursionError as err:
        raise FormatError(f"its meta_data is nested too deeply: {err}") from err
    return entries


def parse_meta_data(text: str) -> dict[str, Any]:
    """Parse the metadata of an item: the first entry of its list."""
    entries: Any = parse_entries(text)
    try:
        return dict(entries[0])
    except (TypeError, IndexError, ValueError) as err:
        raise FormatError("it has no object in meta_data") from err
