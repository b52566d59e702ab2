"""Ids of a Gulp directory, read without opening it as one."""

import os

from ...plugin import FormatError, errors_at
from .format import check_meta_nbytes, list_chunks, load_meta
from .serializer import folder_of


def existing_ids(folder: str | os.PathLike[str]) -> set[str]:
    """Return the ids of all items; an empty set if the folder does not exist."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return set()
    ids: set[str] = set()
    for chunk in list_chunks(names).chunks:
        ids.update(chunk_ids(os.path.join(folder, chunk.meta)))
    return ids


def chunk_ids(meta_path: str) -> list[str]:
    """Return the ids in an index, in order."""
    with errors_at(meta_path, folder_of(meta_path)):
        with open(meta_path, "rb") as file:
            check_meta_nbytes(os.fstat(file.fileno()).st_size)
            index = load_meta(file.read())
        if not isinstance(index, dict):
            raise FormatError("the index is not a JSON object")
    return list(index)
