"""Checking and recovering a file by what it is: an array, bytes, a frame store or a dataset."""

import errno
import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import IO, Any

from ..array.layout import Path
from ..container.writer import Progress
from ..damage.recover import recover as recover_array
from ..damage.recover import same_file
from ..damage.report import Report
from ..damage.verify import verify as verify_array
from ..exceptions import BloscpackError
from ..parallel.imports import importing
from ..storage.file import open_source
from ..storage.memory import MemorySource
from ..storage.protocol import ByteSource
from ..storage.remote.prefetch import copy_to, is_remote
from ..storage.remote.source import RemoteSource
from ..storage.url import is_url, refuse_url
from .open import is_benzina


def verify(
    path: Any,
    *,
    nthreads: int | None = None,
    progress: Progress | None = None,
    fix: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Report:
    """Check every part of a file, and decode every chunk of it.

    Parameters
    ----------
    path : str, PathLike, bytes-like or binary file
        The file, or a URL of it: an array, bytes, a frame store, or a Benzina dataset.
    nthreads : int, optional
        Threads that decode; as many as there are processors, at most 8, by default.
    progress : callable, optional
        Called with (bytes done, bytes in all) after each chunk.
    fix : bool, default False
        If all chunks and the metadata are sound, write a trailer where none is valid, and a lost
        or wrong offset table anew; `path` must then be that of a file. A file whose data are
        damaged is not touched, and a frame store never is: `recover` makes a new one of what is
        whole. A dataset is not touched either. Without `fix` nothing is changed at all.
    storage_options : mapping, optional
        For a URL: what fsspec's file system for it takes (keys, ``endpoint_url``, ``headers``).

    Returns
    -------
    Report
        What is damaged; after `fix`, what still is, and in `notices` what was done. Damage of a
        frame store names the clip and its frames, of a dataset the sample: its `nchunks` are the
        samples, and `nbytes` their bytes.

    Raises
    ------
    NotBloscpackError
        The file is of another kind.
    UnsupportedError
        It is of an unknown version.
    OSError
        It cannot be read, or written if there is something to fix.
    ValueError
        `fix` without the path of a file.
    LockedError
        With `fix`: a writer has the file open.
    FileChangedError
        The file was changed while it was checked; nothing was fixed.

    Notes
    -----
    Each chunk is decoded, so a file without checksums is checked as far as its codecs can.

    A writer may append while the file is checked. The report is of the file as it was when the
    check began; if the end of that was overwritten, then of a later state, all of it checked. With
    `fix` the file is locked meanwhile, as for appending, and written under a rollback journal.

    The pictures of a dataset are not decoded; `bloscpack.benzina.verify` can do so.
    """
    if fix:
        refuse_url(path, "fixed")
    if is_url(path):  # looked at more than once, and fetched once
        remote = RemoteSource(path, storage_options)
        path = remote.place(remote.size())
        storage_options = None
    if is_benzina(path):
        from ..benzina.verify import verify as verify_dataset  # on use: see detect.py

        report = verify_dataset(path, nthreads=nthreads, progress=progress)
        if fix and not report.ok:
            report.notices.append("nothing was fixed: of a dataset nothing can be")
        return report
    source, again = _opened(path, storage_options)
    try:
        from ..frames.store.verify import is_frame_store, verify_store  # on use: see detect.py

        if is_frame_store(source):
            report = verify_store(source, nthreads=nthreads, progress=progress)
            if fix and not report.ok:
                report.notices.append(
                    "nothing was fixed: recover makes a new store of what is whole"
                )
            return report
    except BloscpackError as err:
        err.path = source.name
        raise
    finally:
        source.close()
    return verify_array(again, nthreads=nthreads, progress=progress, fix=fix)


def recover(
    src: Any,
    dst: Path | IO[bytes],
    *,
    nthreads: int | None = None,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Report:
    """Write a new file with everything whole of a damaged or truncated one.

    Parameters
    ----------
    src : str, PathLike, bytes-like or binary file
        The damaged file, or a URL of it; it is only read.
    dst : str, PathLike or binary file
        The new file, which appears whole or not at all.
    nthreads : int, optional
        Threads that decode, to check what was found; as many as there are processors, at most 8,
        by default.
    progress : callable, optional
        Called with (bytes done, bytes in all) after each chunk that is written.
    storage_options : mapping, optional
        For a source behind a URL: what fsspec's file system for it takes.

    Returns
    -------
    Report
        `damage` lists what is missing, `saved` counts the chunks that are not. `nchunks` and
        `nbytes` are what the damaged file promised.

    Raises
    ------
    FormatError, UnsupportedError
        Nothing can be saved, or the file is of another kind; `dst` is not touched.
    ValueError
        `src` and `dst` are the same file.
    OSError
        `src` cannot be read, or `dst` not be written.
    ImportError
        The dtype of the array needs a package that is missing.
    FileChangedError
        `src` was changed meanwhile; `dst` is not touched.

    Notes
    -----
    Of an array, chunks missing inside become zeros; their rows are listed in the new file, too, as
    ``attrs["bloscpack_recovered"] = {"missing_rows": [[start, stop], ...]}``. Chunks missing at the
    end are cut off, and the array ends with its last whole row; if not even its first row is whole,
    the rest of this row becomes zeros. A chunk whose index nothing proves is not saved.

    Of a frame store, the clips that are whole are saved, in their order; a clip with a damaged
    frame is not, and its other frames can still be read from the damaged store.

    What is behind a URL is fetched once, to a temporary file in the folder of `dst`.
    """
    if is_url(src):
        return _recover_remote(src, storage_options, dst, nthreads, progress)
    if same_file(src, dst):
        raise ValueError(f"source and target are the same file: {src!r}")
    source, again = _opened(src, storage_options)
    try:
        from ..frames.store.recoverstore import recover_store  # on use: see detect.py
        from ..frames.store.verify import is_frame_store

        if is_frame_store(source):
            return recover_store(source, dst, nthreads=nthreads, progress=progress)
    except BloscpackError as err:
        err.path = source.name
        raise
    finally:
        source.close()
    return recover_array(again, dst, nthreads=nthreads, progress=progress)


def _recover_remote(
    url: str,
    storage_options: Mapping[str, Any] | None,
    dst: Path | IO[bytes],
    nthreads: int | None,
    progress: Progress | None,
) -> Report:
    """Recover a copy of what is behind a URL: what is looked for everywhere is read many times."""
    with importing:  # on use: 8 ms to load, and rarely needed
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
        try:
            report = recover(copy, dst, nthreads=nthreads, progress=progress)
        except BloscpackError as err:
            err.path = source.name
            raise
    return replace(report, path=source.name)


def _opened(path: Any, storage_options: Mapping[str, Any] | None = None) -> tuple[ByteSource, Any]:
    """Return a source, and what opens the same again: a pipe or a stream is read only once."""
    source = open_source(path, storage_options)
    if is_remote(source):
        return source, source.place(source.size())
    is_read = isinstance(path, str | os.PathLike) or hasattr(path, "read")
    if isinstance(source, MemorySource) and is_read:
        return source, source.content()
    return source, path
