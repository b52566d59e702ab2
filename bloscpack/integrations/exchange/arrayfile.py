"""Copy of an array to a file of another library: written part by part, and compared."""

import json
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, closing
from typing import TypeAlias

from ...filetypes.arraysource import ArraySource
from ...filetypes.copyjob import ByteCount, Conversion, CopyJob, new_copy, refuse_difference
from ...notice import notice
from ...storage.file import open_source
from ...storage.folder.filelist import ListedFolder

Add: TypeAlias = Callable[[int], None]
Open: TypeAlias = Callable[..., AbstractContextManager[ArraySource]]
Write: TypeAlias = Callable[[str, ArraySource, CopyJob, Add], None]


def copy_array(
    kind: str,
    source: ArraySource,
    job: CopyJob,
    write: Write,
    open_copy: Open,
    *,
    keeps: Collection[str] | None = None,
    options: Collection[str] = (),
    is_folder: bool = False,
    in_order: bool = False,
) -> Conversion:
    """Write a copy of an array, compare it with its source, and move it to its place.

    Parameters
    ----------
    kind : str
        Name of the type.
    source : ArraySource
        The array.
    job : CopyJob
        Destination and options.
    write : callable
        Takes the path, the source, the job and a function to call with the bytes of each part, and
        writes the copy.
    open_copy : callable
        Opens the copy, as a source of this type.
    keeps : collection of str, optional
        Names of the attrs that the type can hold; all by default.
    options : collection of str
        Options of chunks that the type has.
    is_folder : bool
        Whether the copy is a folder.
    in_order : bool
        Whether the copy can only be read in the order of its items.

    Raises
    ------
    ValueError
        An option is not for this type.
    FormatError
        The source is damaged, or the copy differs from it.
    """
    job.refuse_options_of_clips({"codec"})
    if job.keepbits is not None or job.coding or job.chunking.keys() - set(options):
        raise ValueError(
            f"keepbits, codec, clevel, shuffle, access{'' if 'chunks' in options else ', chunks'} "
            f"are for a Bloscpack file, not for {kind}"
        )
    lost = [] if keeps is None else [key for key in source.attrs if key not in keeps]
    if lost:
        notice("%s: %s has no place for attributes: %s", job.name, kind, ", ".join(lost))
    count = ByteCount(job, source.nbytes)
    with new_copy(job, is_folder=is_folder) as temporary:
        write(temporary, source, job, count.add)
        if job.verify:
            with (
                closing((ListedFolder if is_folder else open_source)(temporary)) as opened,
                open_copy(opened, "", nthreads=job.nthreads) as copy,
            ):
                what = source.difference(copy, count.add, in_order=in_order)
                if what is None and any(
                    json.dumps(value) != json.dumps(copy.attrs.get(key))
                    for key, value in source.attrs.items()
                    if key not in lost
                ):
                    what = "the attrs"
                refuse_difference(what, job.name)
    return Conversion(kind, 1, source.nrows, 0, lossless=True)
