"""Cards of a Gulp directory, for notebooks."""

from collections.abc import Iterator
from typing import Any

from ..plugin import fields, first_rows, joined
from .chunk.format import lists_of


def gulp_card(directory: Any) -> str:
    """Return the card of a `GulpDirectory`, from its indices alone."""
    items = directory.merged_meta_dict

    def row(id_: str) -> Iterator[object]:
        yield id_
        triplets, entries = lists_of(id_, items[id_])
        yield len(triplets)
        yield directory.chunk_lookup[id_]
        yield entries

    table = fields(
        {
            "folder": str(directory.output_dir),
            "chunks": directory.num_chunks,
            "items": len(items),
        }
    )
    names = ("item", "frames", "chunk", "meta_data")
    return joined(table, first_rows(names, items, row))
