"""Compaction of a file by its type, and the types whose parts can be removed and renamed."""

from contextlib import AbstractContextManager, closing
from typing import Any

from ..exceptions import UnsupportedError
from ..parallel.progressbar import as_progress
from ..storage.protocol import errors_at
from ..storage.url import refuse_url
from ..types import Path, ProgressOption
from .identify import identify_known
from .table import FileType


def compact(path: Path, *, progress: ProgressOption = None) -> None:
    """Write a file that was changed again, without what was removed, and replace it.

    Earlier versions that it keeps are left out, too.

    Parameters
    ----------
    path : str or PathLike
        A frame store; or an array or an archive that was changed, which becomes the file that
        `save` or `savez` writes. It is replaced only when the new file is complete and durable.
        Stored chunks are copied as they are.
    progress : bool, callable or object with ``update``, optional
        True draws a bar; a function is called with (bytes done, bytes in all).

    Raises
    ------
    LockedError
        A writer has the file open.
    FormatError, FileChangedError
        The file is damaged: `recover` writes a new one of what is whole.
    UnsupportedError
        Files of this type have nothing that can be left out, or it is behind a URL.
    OSError
        It cannot be read or replaced.

    Notes
    -----
    Handles that have the file open keep reading the old one.

    Examples
    --------
    >>> import numpy as np
    >>> import bloscpack as bp
    >>> with bp.frames.create("clips.blp") as store:
    ...     store.append("walk", np.zeros((2, 3, 4)))
    >>> with bp.frames.open("clips.blp", "a") as store:
    ...     del store["walk"]
    >>> bp.compact("clips.blp")
    """
    compact_type = _type_at(path, "compacted").compact
    if compact_type is None:
        raise UnsupportedError("files of this type are compact").at(path=path)
    with errors_at(str(path)):
        compact_type(path, progress=as_progress(progress))


def open_parts(path: Path) -> AbstractContextManager[Any]:
    """Open a file to remove and rename its parts; see `FileType.open_parts`."""
    opener = _type_at(path, "changed").open_parts
    if opener is None:
        raise UnsupportedError("parts of files of this type cannot be changed").at(path=path)
    return opener(path)  # type: ignore[no-any-return]


def _type_at(path: Path, done: str) -> FileType:
    refuse_url(path, done)
    filetype, source = identify_known(path)
    with closing(source):
        return filetype
