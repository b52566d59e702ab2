"""Recovery of a damaged file or folder by its type."""

import errno
import os
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import replace
from typing import IO, Any

from ..damage.recover import same_file
from ..damage.report import Report
from ..parallel.imports import importing
from ..parallel.progressbar import as_progress
from ..storage.disk import temporary_folder
from ..storage.protocol import ByteSource, errors_at
from ..storage.remote.prefetch import copy_to
from ..storage.remote.source import RemoteSource
from ..storage.url import is_url, shown_name
from ..types import Path, Progress, ProgressOption
from .identify import identify, refuse_other_folder
from .table import ARRAYS


def recover(
    src: Any,
    dst: Path | IO[bytes],
    *,
    nthreads: int | None = None,
    progress: ProgressOption = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Report:
    """Write the undamaged content of a damaged or truncated file to a new one.

    Parameters
    ----------
    src : str, PathLike, bytes-like or binary file
        The damaged file, or its URL; or a folder of clips. It is only read.
    dst : str, PathLike or binary file
        The new file, or for a folder the new folder. It appears only when it is complete.
        A recording needs the path of a file.
    nthreads : int, optional
        Threads that decode chunks to check them; by default one per processor, at most 8.
    progress : bool, callable or object with ``update``, optional
        True draws a bar; a function is called with (bytes done, bytes in all) after each chunk that
        is written.
    storage_options : mapping, optional
        Options of fsspec's file system, for a source behind a URL.

    Returns
    -------
    Report
        `damage` lists the missing parts, `saved` counts the chunks that were copied: the samples of
        a dataset, the records of a recording, the items of a folder. `nchunks` and `nbytes` are
        those in the header or the index of the damaged file.

    Raises
    ------
    FormatError, UnsupportedError
        Nothing can be saved, or the file is of another type; `dst` is not changed.
    ValueError
        `src` and `dst` are the same file.
    TypeError
        `dst` is a stream, and the source is a recording or a folder.
    OSError
        `src` cannot be read, or `dst` cannot be written.
    ImportError
        The dtype of the array needs a package that is missing.
    FileChangedError
        `src` was changed during the call; `dst` is not changed.

    Notes
    -----
    Missing chunks of an array become zeros. Their rows are listed in the new file as
    ``attrs["bloscpack_recovered"] = {"missing_rows": [[start, stop], ...]}``. Chunks missing at the
    end are cut off, and the array ends with its last whole row; if even its first row is not whole,
    the rest of this row becomes zeros. A chunk whose index cannot be proved is not saved.

    The whole clips of a frame store are saved in their order. A clip with a damaged frame is not
    saved; its other frames can still be read from the damaged store. So are the whole items of a
    folder of clips, whose images are decoded to check them, the whole samples of a dataset, and the
    records of a recording that can be read.

    A file behind a URL is fetched once, to a temporary file in the folder of `dst`.
    """
    shown = as_progress(progress)
    if same_file(src, dst):
        raise ValueError(f"source and target are the same file: {shown_name(src)!r}")
    if is_url(src) and not src.endswith("/"):
        remote = None
        with suppress(FileNotFoundError, IsADirectoryError):  # it may be a folder
            remote = RemoteSource(src, storage_options)
        if remote is not None:
            return _recover_remote(remote, dst, nthreads, shown)
    filetype, source = identify(src, storage_options)
    refuse_other_folder(filetype, source)
    recover_type = (filetype or ARRAYS).recover
    with closing(source), errors_at(source.name, whole=""):
        return recover_type(source, dst, nthreads=nthreads, progress=shown)


def _recover_remote(
    source: ByteSource,
    dst: Path | IO[bytes],
    nthreads: int | None,
    progress: Progress | None,
) -> Report:
    """Recover a local copy of a remote file, as the search for chunks reads it several times."""
    with importing:  # on use: takes 8 ms to load, and is rarely needed
        from tempfile import TemporaryFile

    with closing(source), errors_at(source.name, whole=""):
        if isinstance(dst, str | os.PathLike) and not is_url(dst):
            folder = os.path.dirname(os.path.realpath(dst))
            if not os.path.isdir(folder):
                raise FileNotFoundError(errno.ENOENT, "no such folder", folder)
        else:
            folder = temporary_folder()
        with TemporaryFile(dir=folder) as copy:
            copy_to(source, copy, f"temporary file in {folder}")
            report = recover(copy, dst, nthreads=nthreads, progress=progress)
    return replace(report, path=source.name)
