"""How the metadata of a Gulp directory are kept where each clip has one object.

An item has a list of entries, nearly always of one object, which is what is kept then. Anything
else is kept whole under `META_DATA_KEY`, beside the fields of the first entry.
"""

import json
import os
from typing import Any

from ..exceptions import notice
from .chunk.format import decode_text

META_DATA_KEY = "gulp.meta_data"
# The numbers of labels, which GulpIO2's adapters write beside the chunks.
LABELS_NAME, LABELS_KEY = "label2idx.json", "label2idx"

_MAX_LABELS_NBYTES = 64 << 20


def pack_entries(entries: list[Any] | None) -> dict[str, Any]:
    """Return one object for the metadata of an item."""
    first = entries[0] if entries else None
    if not isinstance(first, dict):
        return {META_DATA_KEY: entries}
    if len(entries or ()) == 1 and META_DATA_KEY not in first:
        return first
    return {**first, META_DATA_KEY: entries}


def unpack_entries(meta: dict[str, Any]) -> list[Any] | None:
    """Return the metadata of an item of what `pack_entries` made; of any other object itself."""
    kept = meta.get(META_DATA_KEY, meta)
    return kept if isinstance(kept, list) or kept is None else [meta]


def load_labels(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the numbers of labels in a folder as an attribute; nothing where there are none."""
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
    """Return the text of the numbers of labels among attributes; None where there are none."""
    if LABELS_KEY not in attrs:
        return None
    return json.dumps(attrs[LABELS_KEY]).encode("ascii")
