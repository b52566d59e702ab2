"""Ids of a Gulp directory, read without opening it as one."""

import os

from ...plugin import FormatError
from .format import list_chunks
from .serializer import folder_of, json_serializer


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
    index = json_serializer.load(meta_path)
    if not isinstance(index, dict):
        error = FormatError("the index is not a JSON object")
        raise error.at(path=meta_path, whole=folder_of(meta_path))
    return list(index)
