"""Conversion of the metadata of a Gulp directory to and from one object per clip.

An item of a Gulp directory has a list of entries, nearly always with one object, which becomes the
metadata of the clip. Any other list is stored whole under `META_DATA_KEY`, beside the fields of its
first entry.
"""

import json
from contextlib import closing
from typing import Any

from ..plugin import LABELS_KEY, ListedFolder, notice
from .chunk.format import LABELS_NAME, decode_text

META_DATA_KEY = "gulp.meta_data"

_MAX_LABELS_NBYTES = 64 << 20


def pack_entries(entries: list[Any] | None) -> dict[str, Any]:
    """Return a single object for the metadata of an item."""
    first = entries[0] if entries else None
    if not isinstance(first, dict):
        return {META_DATA_KEY: entries}
    if len(entries or ()) == 1 and META_DATA_KEY not in first:
        return first
    return {**first, META_DATA_KEY: entries}


def unpack_entries(meta: dict[str, Any]) -> list[Any] | None:
    """Invert `pack_entries`; any other object becomes the only entry."""
    kept = meta.get(META_DATA_KEY, meta)
    return kept if isinstance(kept, list) or kept is None else [meta]


def load_labels(folder: ListedFolder) -> dict[str, Any]:
    """Return the label numbers of a folder as an attribute, or {} if it has none."""
    if LABELS_NAME not in folder.names:
        return {}
    with closing(folder.open(LABELS_NAME)) as source:
        text = source.read_at(0, min(source.size(), _MAX_LABELS_NBYTES))
    try:
        labels = json.loads(decode_text(bytes(text)))
    except (ValueError, RecursionError) as err:
        notice("%s is left out: it is not JSON: %s", folder.path(LABELS_NAME), err)
        return {}
    return {LABELS_KEY: labels}


def dump_labels(attrs: dict[str, Any]) -> bytes | None:
    """Return the label numbers among attributes as text, or None."""
    if LABELS_KEY not in attrs:
        return None
    return json.dumps(attrs[LABELS_KEY]).encode("ascii")
