"""The names of ``gulpio2.sanity_utils``: checks of a directory that can be opened.

Each returns a list of failures. `bloscpack.gulp.verify` checks more, also in other directories.
"""

import os
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from itertools import chain
from typing import Any

from ..plugin import errors_at
from .chunk.format import frame_info, lists_of
from .chunk.serializer import folder_of

__all__ = [
    "check_data_file_size",
    "check_data_file_size_larger_zero",
    "check_for_duplicate_ids",
    "check_for_failures",
    "check_meta_file_size_larger_zero",
    "extract_all_ids",
    "get_duplicate_entries",
]


def check_meta_file_size_larger_zero(gulp_directory: Any) -> list[str]:
    """Return the paths of index files that are empty."""
    return [
        chunk.meta_file_path
        for chunk in gulp_directory.chunks()
        if os.stat(chunk.meta_file_path).st_size == 0
    ]


def check_data_file_size_larger_zero(gulp_directory: Any) -> list[str]:
    """Return the paths of empty data files, including those of chunks without frames."""
    return [
        chunk.data_file_path
        for chunk in gulp_directory.chunks()
        if os.stat(chunk.data_file_path).st_size == 0
    ]


def check_data_file_size(gulp_directory: Any) -> list[str]:
    """Return the paths of data files whose size is not the end of the last record in them."""
    return [
        chunk.data_file_path
        for chunk in gulp_directory.chunks()
        if os.stat(chunk.data_file_path).st_size != _data_end(chunk)
    ]


def _data_end(chunk: Any) -> int:
    """Return the end of the data of a chunk according to its index: the largest record end."""
    with errors_at(chunk.meta_file_path, folder_of(chunk.meta_file_path)):
        items = chunk.meta_dict.items()
        triplets = chain.from_iterable(lists_of(*each)[0] for each in items)
        return max((info.loc + info.length for info in map(frame_info, triplets)), default=0)


def check_for_duplicate_ids(gulp_directory: Any) -> list[str]:
    """Return the ids that more than one chunk has."""
    return get_duplicate_entries(extract_all_ids(gulp_directory))


def extract_all_ids(gulp_directory: Any) -> list[str]:
    """Return the ids of all chunks, in order."""
    return [id_ for chunk in gulp_directory.chunks() for id_ in chunk.meta_dict]


def get_duplicate_entries(list_: Iterable[Hashable]) -> list[Any]:
    """Return the entries that are in a list more than once, each of them once."""
    return [entry for entry, count in Counter(list_).items() if count > 1]


def check_for_failures(result: Mapping[str, Any]) -> None:
    """Print the result of a check: a mapping of ``message`` and ``failures``."""
    print(f"Sanity Check: {result['message']}")  # noqa: T201 - as in GulpIO2
    if len(result["failures"]):
        print(f"Test failed for: {result['failures']}")  # noqa: T201
    else:
        print("Test passed")  # noqa: T201
