"""Verifying and recovering a file by its type: array, bytes, frame store or dataset."""

import errno
import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import IO, Any

from ..array.layout import Path
from ..damage.recover import same_file
from ..damage.report import Report
from ..parallel.imports import importing
from ..storage.protocol import ByteSource, errors_at
from ..storage.remote.prefetch import copy_to
from ..storage.remote.source import RemoteSource
from ..storage.url import is_url, refuse_url
from ..types import Progress
from .identify import identify
from .table import ARRAYS, FileType


def verify(
    path: Any,
    *,
    nthreads: int | None = None,
    progress: Progress | None = None,
    fix: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Report:
    """Verify every part of a file, and decode every chunk of it.

    Parameters
    ----------
    path : str, PathLike, bytes-like or binary file
        The file, or its URL: an array, bytes, a frame store, or a Benzina dataset.
    nthreads : int, optional
        Threads that decode; by default one per processor, at most 8.
    progress : callable, optional
        Called with (bytes done, bytes in all) after each chunk.
    fix : bool, default False
        Repair `path`, which must then be the path of a file: if all chunks and the metadata are
        sound, rewrite an invalid trailer and a lost or wrong offset table. A file with damaged data
        is not changed, nor is a frame store: `recover` writes a new file of what is whole. A
        dataset cannot be repaired. Without `fix` nothing is changed.
    storage_options : mapping, optional
        Options of fsspec's file system for a URL (keys, ``endpoint_url``, ``headers``).

    Returns
    -------
    Report
        The damage found. After `fix` the damage that is left, with the repairs in `notices`. Damage
        of a frame store names the clip and its frames, of a dataset the sample; for a dataset
        `nchunks` counts samples, and `nbytes` their bytes.

    Raises
    ------
    NotBloscpackError
        The file is of another type.
    UnsupportedError
        The file is of an unknown version.
    OSError
        The file cannot be read, or cannot be written if it needs a repair.
    ValueError
        `fix` without the path of a file.
    LockedError
        With `fix`: a writer has the file open.
    FileChangedError
        The file was changed while it was verified; nothing was fixed.

    Notes
    -----
    Each chunk is decoded, so damage to a file without checksums is found as far as its codecs can.

    A writer may append to the file during the call. The report is about the state of the file when
    the call began, or, if the end of that was overwritten, about a later state, verified as a
    whole. With `fix` the file is locked during the call, as for appending, and is written under a
    rollback journal.

    The pictures of a dataset are not decoded; `bloscpack.benzina.verify` can decode them.
    """
    if fix:
        refuse_url(path, "fixed")
    filetype, source = identify(path, storage_options)
    return verify_source(
        filetype, source, path if fix else None, nthreads=nthreads, progress=progress
    )


def verify_source(
    filetype: FileType | None,
    source: ByteSource,
    fix: Any = None,
    *,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Verify an identified file, and close it; `fix` is the path of the file to repair, if any."""
    filetype = filetype or ARRAYS  # whose error says what the file is
    options = {"nthreads": nthreads, "progress": progress}
    with closing(source), errors_at(source.name):
        if fix is not None and not filetype.repair:
            source.close()  # it is opened again for writing, under a lock
            repaired: Report = filetype.verify(fix, **options, fix=True)
            return repaired
        report: Report = filetype.verify(source, **options)
        if fix is not None and not report.ok:
            report.notices.append(f"nothing was fixed: {filetype.repair}")
        return report


def recover(
    src: Any,
    dst: Path | IO[bytes],
    *,
    nthreads: int | None = None,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Report:
    """Write the undamaged content of a damaged or truncated file to a new one.

    Parameters
    ----------
    src : str, PathLike, bytes-like or binary file
        The damaged file, or its URL; it is only read.
    dst : str, PathLike or binary file
        The new file. It appears only when it is complete.
    nthreads : int, optional
        Threads that decode chunks to check them; by default one per processor, at most 8.
    progress : callable, optional
        Called with (bytes done, bytes in all) after each chunk that is written.
    storage_options : mapping, optional
        Options of fsspec's file system, for a source behind a URL.

    Returns
    -------
    Report
        `damage` lists the missing parts, `saved` counts the chunks that were copied. `nchunks` and
        `nbytes` are those in the header of the damaged file.

    Raises
    ------
    FormatError, UnsupportedError
        Nothing can be saved, or the file is of another type; `dst` is not changed.
    ValueError
        `src` and `dst` are the same file.
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
    saved; its other frames can still be read from the damaged store.

    A file behind a URL is fetched once, to a temporary file in the folder of `dst`.
    """
    if is_url(src):
        return _recover_remote(src, storage_options, dst, nthreads, progress)
    if same_file(src, dst):
        raise ValueError(f"source and target are the same file: {src!r}")
    filetype, source = identify(src, storage_options)
    recover_type = (filetype or ARRAYS).recover
    with closing(source), errors_at(source.name):
        report: Report = recover_type(source, dst, nthreads=nthreads, progress=progress)
        return report


def _recover_remote(
    url: str,
    storage_options: Mapping[str, Any] | None,
    dst: Path | IO[bytes],
    nthreads: int | None,
    progress: Progress | None,
) -> Report:
    """Recover a local copy of a URL: the search for chunks reads the file several times."""
    with importing:  # on use: takes 8 ms to load, and is rarely needed
        from tempfile import TemporaryFile, gettempdir

    folder = None
    if isinstance(dst, str | os.PathLike) and not is_url(dst):
        folder = os.path.dirname(os.path.realpath(dst))
        if not os.path.isdir(folder):
            raise FileNotFoundError(errno.ENOENT, "no such folder", folder)
    with (
        closing(RemoteSource(url, storage_options)) as source,
        TemporaryFile(dir=folder) as copy,
    ):
        copy_to(source, copy, f"temporary file in {folder or gettempdir()}")
        with errors_at(source.name):
            report = recover(copy, dst, nthreads=nthreads, progress=progress)
    return replace(report, path=source.name)
