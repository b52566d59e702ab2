"""Conversion of the metadata of a Gulp directory to and from one object per clip.

An item of a Gulp directory has a list of entries, nearly always with one object, which becomes the
metadata of the clip. Any other list is stored whole under `META_DATA_KEY`, beside the fields of its
first entry.
"""

import json
import os
from typing import Any

from ..frames.protocol import LABELS_KEY
from ..notice import notice
from .chunk.format import decode_text

META_DATA_KEY = "gulp.meta_data"
# File for the label numbers, which GulpIO2's adapters write beside the chunks.
LABELS_NAME = "label2idx.json"

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


def load_labels(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the label numbers of a folder as an attribute, or {} if it has none."""
    path = os.path.join(folder, LABELS_NAME)
    try:
        with open(path, "rb") as stream:
            labels = json.loads(decode_text(stream.read(_MAX_LABELS_NBYTES)))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as err:
        notice("%s is left out: it is not JSON: %s", path, err)
        return {}
    return {LABELS_KEY: labels}


def dump_labels(attrs: dict[str, Any]) -> bytes | None:
    """Return the label numbers among attributes as text, or None."""
    if LABELS_KEY not in attrs:
        return None
    return json.dumps(attrs[LABELS_KEY]).encode("ascii")
