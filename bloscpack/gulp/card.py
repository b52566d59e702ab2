"""Cards of a Gulp directory, for notebooks."""

from collections.abc import Iterator
from typing import Any

from ..plugin import fields, first_rows, joined


def gulp_card(directory: Any) -> str:
    """Return the card of a `GulpDirectory`, from its indices alone."""
    items = directory.merged_meta_dict

    def row(id_: str) -> Iterator[object]:
        entry = items[id_]
        yield id_
        yield len(entry["frame_info"])
        yield directory.chunk_lookup[id_]
        yield entry["meta_data"]

    table = fields(
        {
            "folder": str(directory.output_dir),
            "chunks": directory.num_chunks,
            "items": len(items),
        }
    )
    names = ("item", "frames", "chunk", "meta_data")
    return joined(table, first_rows(names, items, row))
