"""Writing the items of an adapter to chunks."""

from typing import Any

from ..chunk.chunkfile import GulpChunk
from ..gulperrors import DuplicateIdException


def calculate_chunk_slices(items_per_chunk: int, num_items: int) -> list[slice]:
    """Return slices that divide `num_items` items into chunks of `items_per_chunk` each.

    Raises
    ------
    AssertionError
        One of the numbers is not positive.
    """
    if items_per_chunk < 1 or num_items < 1:
        raise AssertionError(
            f"{num_items} items in chunks of {items_per_chunk}: both must be positive"
        )
    starts = range(0, num_items, items_per_chunk)
    return [slice(start, min(start + items_per_chunk, num_items)) for start in starts]


class ChunkWriter:
    """Writes the items of an adapter to chunks.

    Parameters
    ----------
    adapter : AbstractDatasetAdapter
        Its ``iter_data(slice)`` yields dicts with ``id``, ``meta`` and ``frames``.
    """

    def __init__(self, adapter: Any) -> None:
        self.adapter = adapter

    def write_chunk(self, output_chunk: GulpChunk, input_slice: slice) -> None:
        """Write the items of a slice to a chunk, which is emptied first.

        Items without frames are skipped, and printed to standard output.

        Raises
        ------
        DuplicateIdException
            Two items have the same id.
        """
        seen: set[str] = set()
        with output_chunk.open("wb"):
            for item in self.adapter.iter_data(input_slice):
                id_ = str(item["id"])
                if id_ in seen:
                    raise DuplicateIdException(f"the adapter yields two items of id {id_!r:.80}")
                seen.add(id_)
                if len(item["frames"]) > 0:
                    output_chunk.append(item["id"], item["meta"], item["frames"])
                else:
                    # On standard output, as in GulpIO2.
                    print(f"Failed to write video with id: {id_}; no frames")  # noqa: T201
