"""Copy of an array to a file of another library: written part by part, and compared."""

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, closing
from typing import TypeAlias

import numpy as np

from ...filetypes.arraysource import ArraySource
from ...filetypes.copyjob import ByteCount, Conversion, CopyJob, new_copy, refuse_difference
from ...notice import notice
from ...storage.file import open_source
from ...storage.folder.filelist import ListedFolder
from .arraylabels import canonical, is_same
from .library import refuse_inner

_CHUNK_NBYTES = 1 << 20

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
    names: bool = False,
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
    names : bool
        Whether arrays in a file have names, so that the destination may be ``path::/name``.

    Raises
    ------
    ValueError
        An option is not for this type.
    FormatError
        The source is damaged, or the copy differs from it.
    """
    refuse_our_options(job, kind, options)
    if job.inner and not names:
        refuse_inner(job.inner, kind)
    lost = [] if keeps is None else [key for key in source.attrs if key not in keeps]
    if lost:
        notice("%s: %s has no place for attributes: %s", job.name, kind, ", ".join(lost))
    kept = {key: value for key, value in source.attrs.items() if key not in lost}
    source = source._replace(attrs=canonical(kept, source.rows.shape))
    count = ByteCount(job, source.nbytes)
    with new_copy(job, is_folder=is_folder) as temporary:
        write(temporary, source, job, count.add)
        if job.verify:
            with (
                closing((ListedFolder if is_folder else open_source)(temporary)) as opened,
                open_copy(opened, job.inner, nthreads=job.nthreads) as copy,
            ):
                what = source.difference(copy, count.add)
                # The place in the copy is the new name.
                named = {"name": job.inner.rpartition("/")[2]} if job.inner else {}
                one, two = source.attrs | named, copy.attrs | named
                if what is None and not is_same(one, two, source.rows.shape):
                    what = "the attrs"
                refuse_difference(what, job.name)
    return Conversion(kind, 1, source.nrows, 0, lossless=True)


def refuse_our_options(job: CopyJob, kind: str, options: Collection[str] = ()) -> None:
    """Raise ValueError if an option is given that only clips or our arrays have.

    `options` are those of chunks that the type `kind` has.
    """
    job.refuse_options_of_clips({"codec"})
    if job.keepbits is not None or job.coding or job.chunking.keys() - set(options):
        raise ValueError(
            f"keepbits, codec, clevel, shuffle, access{'' if 'chunks' in options else ', chunks'} "
            f"are for a Bloscpack file, not for {kind}"
        )


def chunks_for(source: ArraySource, job: CopyJob) -> tuple[int, ...] | None:
    """Return the chunks of a copy: those of the options, of the source, or rows of about 1 MiB.

    None for an array without items or axes, which has no chunks.
    """
    shape: tuple[int, ...] = source.rows.shape
    if not shape or not source.nbytes:
        return None
    given = job.chunking.get("chunks")
    if given is not None:
        if isinstance(given, str) or not np.all(np.array(given) > 0):
            raise ValueError(f"chunks must be positive numbers, not {given!r:.80}")
        source = source._replace(chunks=given, is_fortran=False)
    chunks = source.chunk_shape
    if len(chunks) != len(shape):
        raise ValueError(f"chunks {chunks} have {len(chunks)} axes, and the array {len(shape)}")
    if source.chunks is None:
        room = max(1, _CHUNK_NBYTES // source.rows.dtype.itemsize)
        sides = []
        for length in reversed(shape):
            sides.append(min(length, room))
            room = max(1, room // length)
        chunks = tuple(reversed(sides))
    return tuple(min(one, length) for one, length in zip(chunks, shape, strict=True))
