"""The ids in a gulp directory, read without opening it as one."""

import os

from ...exceptions import BloscpackError, FormatError
from .format import check_meta_nbytes, list_chunks, load_meta


def existing_ids(folder: str | os.PathLike[str]) -> set[str]:
    """Return the ids of all items; none if the folder does not exist.

    Raises
    ------
    FormatError
        The files do not fit together, or an index is damaged.
    """
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return set()
    ids: set[str] = set()
    for chunk in list_chunks(names).chunks:
        ids.update(chunk_ids(os.path.join(folder, chunk.meta)))
    return ids


def chunk_ids(meta_path: str) -> list[str]:
    """Return the ids in an index, in order.

    Raises
    ------
    FormatError
        It is damaged.
    """
    try:
        with open(meta_path, "rb") as file:
            check_meta_nbytes(os.fstat(file.fileno()).st_size)
            index = load_meta(file.read())
        if not isinstance(index, dict):
            raise FormatError("the index is no JSON object")
    except BloscpackError as err:
        err.path = meta_path
        raise
    return list(index)
