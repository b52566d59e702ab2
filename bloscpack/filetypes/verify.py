"""Verification of a file or folder by its type."""

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from ..damage.report import Report
from ..keywords import explain_keywords
from ..parallel.progressbar import as_progress
from ..storage.file import Place
from ..storage.folder.filelist import ListedFolder
from ..storage.protocol import ByteSource, errors_at
from ..storage.url import refuse_url
from ..types import Progress, ProgressOption
from .identify import identify, refuse_other_folder
from .table import ARRAYS, FileType


@explain_keywords()
def verify(
    path: Any,
    *,
    nthreads: int | None = None,
    progress: ProgressOption = None,
    fix: bool = False,
    decode: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Report:
    """Verify every part of a file, and decode every chunk of it.

    Parameters
    ----------
    path : str, PathLike, bytes-like or binary file
        The file, or its URL: an array, bytes, an archive, a frame store, a recording or a
        dataset; or a folder of clips.
    nthreads : int, optional
        Threads that decode; by default one per processor, at most 8.
    progress : bool, callable or object with ``update``, optional
        True draws a bar; a function is called with (bytes done, bytes in all) after each chunk.
    fix : bool, default False
        Repair `path`, which must then be the path of a file: if all chunks and the metadata are
        sound, rewrite an invalid trailer and a lost or wrong offset table. A file with damaged data
        is not changed, nor is a file of another type: `recover` writes a new file of what is
        whole. Without `fix` nothing is changed.
    decode : bool, default False
        Also decode the images of a folder, a recording or a dataset, and the audio of a
        recording. Everything else is decoded in any case.
    storage_options : mapping, optional
        Options of fsspec's file system for a URL (keys, ``endpoint_url``, ``headers``).

    Returns
    -------
    Report
        The damage found. After `fix` the damage that is left, with the repairs in `notices`. Damage
        of a frame store names the clip and its frames, of a dataset the sample. `nchunks` counts
        the samples of a dataset, the records of a recording or the pairs of files of a
        folder, and `nbytes` their bytes.

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

    """
    place = Place.of(path)
    if fix:
        refuse_url(path, "fixed")
    filetype, source = identify(place, storage_options)
    refuse_other_folder(filetype, source)
    return verify_source(
        filetype,
        source,
        place if fix else None,
        decode=decode,
        nthreads=nthreads,
        progress=as_progress(progress),
    )


def verify_source(
    filetype: FileType | None,
    source: ByteSource | ListedFolder,
    fix: Place | None = None,
    *,
    decode: bool = False,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Verify an identified file, and close it; `fix` is the file to repair, if any."""
    filetype = filetype or ARRAYS  # whose error says what the file is
    options: dict[str, Any] = {"nthreads": nthreads, "progress": progress}
    if filetype.has_decode:
        options["decode"] = decode
    with closing(source), errors_at(source.name):
        if fix is not None and fix.inner:
            raise ValueError("an array of an archive cannot be fixed; recover writes a new archive")
        if fix is not None and not filetype.repair:
            source.close()  # it is opened again for writing, under a lock
            return filetype.verify(fix.path, **options, fix=True)
        report = filetype.verify(source, **options)
        if fix is not None and not report.ok:
            report.notices.append(f"nothing was fixed: {filetype.repair}")
        return report
