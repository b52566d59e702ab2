"""Conversion of arrays and of clips of frames between our files and those of other libraries.

A VRS recording is copied into a frame store, and back, with all records and tags: see vrs/store/.

Frames are read through the protocol of sources. JPEG and PNG images are copied byte for byte, and
arrays without loss. A Gulp directory holds only JPEG, so arrays are encoded for it, if a quality is
given. Samples of a Benzina dataset are copied byte for byte to another one; other pictures are
encoded for it, without loss unless a crf is given. The new file or folder is written under a
temporary name, compared with the source, and renamed. After an error it is removed.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Unpack

from ..display.contactsheet import pictured
from ..exceptions import UnsupportedError
from ..format.filekind import (
    HEAD_NBYTES,
    IMAGE_SUFFIXES,
    VIDEO_SUFFIXES,
    ZIP,
    FileKind,
    folder_kind,
    kind_of,
    zip_kind,
)
from ..keywords import explain_keywords
from ..parallel.imports import importing
from ..parallel.progressbar import as_progress
from ..storage.file import Place
from ..storage.folder.filelist import ListedFolder, is_pattern
from ..storage.protocol import ByteSource, errors_at
from ..storage.url import is_url, refuse_options, shown_name
from ..types import ProgressOption
from .arrayclips import Clips, array_of_clip, arrays_of_clips
from .arraysource import ArraySource, SeveralArrays, only
from .copyjob import COPY_DEFAULTS, Conversion, CopyJob, CopyOptions
from .identify import identify
from .inventory import attributes
from .open import frames_of, open_frames
from .table import ARRAY_OPTIONS, FILETYPES, TARGETS, FileType, Target

if TYPE_CHECKING:
    from ..frames.protocol import FrameSource


@explain_keywords(COPY_DEFAULTS)
def convert(
    src: Any,
    dst: str | os.PathLike[str],
    *,
    to: str | None = None,
    verify: bool = True,
    progress: ProgressOption = None,
    overwrite: bool = False,
    allow_empty: bool = False,
    strict: bool = False,
    nthreads: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[CopyOptions],
) -> Conversion:
    """Convert an array, clips of frames or a VRS recording to a file or folder of another type.

    Parameters
    ----------
    src : path or URL, sequence of these, or source of clips
        An array in a Bloscpack file or in a file of another library (NumPy, HDF5, Zarr, netCDF,
        TIFF). Or a source of clips: anything that `bloscpack.frames.open` opens, a tar file of
        webdataset, a video, a picture, or a folder of pictures, each file a clip. What the file is,
        is found by its content. ``file::/name`` is one array of several, or a clip. Several paths
        are frame stores, or the files of one VRS recording.
    dst : str or PathLike
        The new file or folder, or the URL of a file. It appears only when it is complete.
        ``file::/name`` also names the array in it, if the type has names.
    to : str, optional
        Type of the copy: "frames", "gulp", "vrs", "benzina", "images", "webdataset", "mp4" or "gif"
        for clips; "array", "v3", "npy", "hdf5", "zarr", "zarr2" (format 2), "tiff" or "netcdf" for
        an array; "archive", "npz", "hdf5" or "zarr" for all arrays or clips of a file with several.
        By default the type of the suffix of `dst`, such as ".bzna", ".npy" or ".h5", or ".vrs" if
        `src` is a store that holds a recording. For any other name an array becomes a Bloscpack
        file ("array"), which is written as by `bloscpack.save`, with the chunks of `src`; several
        become an `Archive`. Clips become a frame store, and the clips of a frame store a Gulp
        directory, unless the name ends in ".blp". "v3" writes an array in format version 3, which
        bloscpack 0.16 reads: in chunks of whole rows, by Blosc alone. "frames" makes a clip of each
        array of shape (T, H, W) or (T, H, W, C).
    verify : bool, default True
        Compare every frame and all metadata with the source before `dst` appears: images by their
        bytes, and decoded to find damage, arrays by their pixels, recordings by
        `vrs.Recording.checksum`. For pictures encoded with loss, only size, name and target are
        compared.
    progress : bool, callable or object with ``update``, optional
        True draws a bar; a function is called with (clips done, clips in all), records for
        recordings, or bytes for an array; comparing counts as much as copying.
    quality : int, optional
        JPEG quality, 1 to 100, for clips that a Gulp directory can only hold as JPEG: uint8 of one
        or three channels. Detail is lost. Without a quality such clips raise an error.
    preset : {"fast", "small", "raw"}, optional
        Compression of arrays in a frame store, see `bloscpack.frames.create`: "fast" by default,
        "small" for recordings.
    videos_per_chunk : int, default 100
        Clips in each pair of files of a Gulp directory.
    verbatim : bool, default False
        Also store the bytes of a VRS recording outside of its records, so that its files can be
        restored byte for byte. Conversions of such a store always give the same bytes.
    crf : float, optional
        Quality of lossy pictures in a Benzina dataset, from 0 (best) to 51 or 63; see
        `benzina.Writer`. Without it every pixel is kept, in "hevc" or "h264". An MP4 file is lossy
        in any case, by default with 18.
    codec : str, optional
        Codec of a Benzina dataset: "hevc" (default), "h264" or "av1". Or of an array, with
        to="array", as for `bloscpack.save`.
    tile : int, optional
        Edge length in pixels of the square tiles of a Benzina dataset, 512 by default. Frames are
        whole numbers of tiles.
    chunks, access : optional
        Chunks of an array, see `bloscpack.save`. By default those of `src`. All chunks with the
        same rows are in memory at once.
    clevel, shuffle : optional
        Level and filter of an array, see `bloscpack.save`.
    keepbits : int, optional
        Mantissa bits to keep of the floats of an array, see `bloscpack.save`. By default those that
        were kept before.
    stats : bool, default False
        Store statistics of each chunk of arrays whose items have them, see `bloscpack.save`.
    overwrite : bool, default False
        Replace an existing file `dst`. A folder is replaced only if it is empty. A device or a
        pipe is written to in any case.
    allow_empty : bool, default False
        Convert a source without clips, arrays and attributes, which otherwise raises an error. A
        VRS recording may consist of tags alone.
    strict : bool, default False
        Refuse a copy that does not have everything that the source has: attributes, groups, other
        arrays, members of a tar file. Otherwise the copy is made, a warning names each, and
        `Conversion.left_out` lists them.
    nthreads : int, optional
        Threads that encode and decode; by default one per processor, at most 8.
    storage_options : mapping, optional
        Options of fsspec's file system, for a source or a destination behind a URL.

    Returns
    -------
    Conversion
        Type and counts of the copy, and what it has not.

    Raises
    ------
    FileExistsError
        The file or folder `dst` exists.
    ValueError
        A Gulp directory, dataset or folder cannot hold a clip, which the message names. Or there is
        nothing to convert, or a parameter is invalid. Or the file has several arrays or clips,
        and `src` does not name one.
    NotFoundError
        The file does not have the array or clip that is named.
    WrongKindError
        The source is of another type; the message names the function that reads it.
    FormatError, CodecError
        The source is damaged, or the copy differs from it.
    LockedError
        A writer has the file open that is to be replaced.
    TypeError
        An array is to be copied from several files, or a parameter has the wrong type.
    UnsupportedError
        The items of the array are not floats that `keepbits` can round, or the other type cannot
        hold them. Or something would be left out, and `strict` is True.
    ImportError
        The library of the other type is missing; the message names the extra to install.
    OSError
        The source cannot be read, or the destination cannot be written.

    Notes
    -----
    Ids and their order do not change. Metadata of a Gulp item that are not a single object are
    stored whole under "gulp.meta_data", beside the fields of the first entry, and restored from
    there. The file label2idx.json becomes the attribute "label2idx". A Gulp directory cannot store
    other attributes of a frame store, nor the dtype and shape of clips without frames.

    In a Benzina dataset each frame is a sample. Its name is the "name" in the metadata of its clip,
    or the id, with a number if the clip has several frames. Its target is "target" or "label" of
    the metadata; other metadata are not stored. Frames are those that the source reads. In a
    frame store made of a dataset, the metadata of each clip have its name and target, and an
    attribute of the store has the splits. Frames are stored as decoded pixels, as a store holds no
    coded pictures but JPEG and PNG. For a folder of pictures, the top folders are
    the targets (see `benzina.pack`). A folder that is written has ``samples.json`` with ids and
    metadata.

    Examples
    --------
    >>> import bloscpack as bp, numpy as np
    >>> with bp.frames.create("clips.blp") as store:
    ...     store.append("walk", np.zeros((3, 8, 8, 3), "u1"), {"label": 1})
    >>> bp.convert("clips.blp", "gulped", quality=95)
    Conversion(kind='gulp', clips=1, frames=3, images=0, lossless=False, left_out=())
    >>> bp.convert("gulped", "again.blp")
    Conversion(kind='frames', clips=1, frames=3, images=3, lossless=True, left_out=())
    """
    given = {k: v for k, v in options.items() if v is not None and v != COPY_DEFAULTS.get(k)}
    place, target = Place.of(src), Place.of(dst)
    src, inner, path = place.path, place.inner, target.path
    urls = is_url(path), any(map(is_url, src if isinstance(src, list | tuple) else [src]))
    if to:
        _named(to)  # refuses another name before the source is opened
    job = CopyJob(
        target=os.fspath(path) if urls[0] else os.path.realpath(path),
        name=shown_name(os.fspath(path)),
        storage_options=storage_options if urls[0] else None,
        inner=target.inner,
        verify=verify,
        progress=as_progress(progress),
        options=given,
        overwrite=overwrite,
        allow_empty=allow_empty,
        strict=strict,
        nthreads=nthreads,
    )
    if inner and job.target == (src if urls[1] else os.path.realpath(src)):
        raise ValueError(
            f"{place.shown} is a part of {job.name}, and a copy there would replace the whole "
            "file: name another file"
        )
    if urls == (True, False):
        storage_options = None
    with ExitStack() as stack:
        filetype, src, storage_options = _identified(src, storage_options, stack)
        if (
            not (inner or job.inner)
            and filetype
            and filetype.copy
            and (to or _suffix_type(job)) in (None, "frames", filetype.name)
        ):
            _check_options(filetype, job)
            return job.ended(filetype.copy(src, storage_options, to or _suffix_type(job), job))
        if to:
            _check_options(_named(to), job)
        stack.enter_context(errors_at(getattr(src, "name", None), whole=""))
        source = _opened(filetype, src, inner, to, job, storage_options, stack)
        # With the name of a clip, the rest of the file is not asked for.
        part = source[inner] if inner and hasattr(source, "keys") else source
        job.note(part)
        result = _copied(source, src, inner, to, job)
        job.note(part)  # whether values are raw may be known only now
        return job.ended(result)


def _copied(source: Any, src: Any, inner: str, to: str | None, job: CopyJob) -> Conversion:
    """Copy `SeveralArrays` or a source of clips; `src` is where it is from."""
    if not isinstance(source, SeveralArrays):
        return _copied_clips(source, inner, to, job)
    source = source.noted(job.note)
    if source.nbytes is None:
        target = _target_of_several(to, job)
    else:
        target = _target(to, source, job, is_array=True)
    if target.is_array:
        return target.copy(source, job)
    if source.nbytes is None:
        with Clips.of_several(source, src.name) as clips:
            return _copied_clips(clips, "", to, job)
    with source.open("") as array:
        return _copied_clips(Clips.of(array, src.name), "", to, job)


def _copied_clips(source: Any, inner: str, to: str | None, job: CopyJob) -> Conversion:
    """Copy all clips of a source, or the clip `inner`."""
    target = _target(to, source, job, is_array=False)
    if job.inner and not (target.is_array and target.open):
        raise ValueError(f"a copy of type {target.name!r} has no part {job.inner!r:.80}")
    if target.is_array and target.has_names and not (inner or job.inner or len(source) == 1):
        job.check_found(len(source), source.name)
        return target.copy(arrays_of_clips(source).noted(job.note), job)
    if target.is_array:
        array = array_of_clip(source, inner)
        job.note(array)
        if not inner:
            job.note(source)  # in which reading the images may have found more
        return target.copy(SeveralArrays.of(array), job)
    shown = source if target.name == "frames" else pictured(source)
    if inner:
        clip = shown[inner]
        job.carry(*set(source[inner].left_out).difference(clip.left_out))
        shown = Clips({inner: clip}, source.name, clip)
    job.check_found(len(shown), source.name)
    job.check_target(is_folder=target.is_folder)
    return target.copy(shown, job)


def _target_of_several(to: str | None, job: CopyJob) -> Target:
    """Return the type of a copy of several arrays: an archive, unless another one is named."""
    target = _target(to, None, job, is_array=True)
    return _named("archive") if to is None and target.name == "array" else target


def _suffix_type(job: CopyJob) -> str | None:
    """Return the type that the suffix of the destination names; None if it may be any of ours."""
    suffix = _promised(job)
    named = (each.name for each in TARGETS if suffix in each.suffixes)
    return next(named, None) if suffix else None


# End of a ZIP archive in which the kind of its members is looked for.
_ZIP_TAIL_NBYTES = 64 << 10


@contextmanager
def open_array(place: Place, *, nthreads: int | None = None) -> Iterator[ArraySource]:
    """Yield the array in a file that `convert` reads one from.

    Raises
    ------
    WrongKindError
        It is a file of another type.
    FormatError
        The file is damaged.
    """
    with ExitStack() as stack:
        filetype, source, _ = _identified(place.path, None, stack)
        reader = _reader(filetype, source)
        if reader is None or not reader.is_array or (filetype and not place.inner):
            reader = _named("array")  # its error names the function that reads the file
        arrays = stack.enter_context(reader.read(source, place.inner, nthreads=nthreads))
        yield stack.enter_context(
            arrays.open(only(arrays.names, reader.kinds[0].name, source.name))
        )


def _reader(filetype: FileType | None, source: Any) -> Target | None:
    """Return the row that reads an array, or a file or folder of another library."""
    kind: FileKind | None
    if isinstance(source, ListedFolder):
        kind = folder_kind(source.names)
    elif filetype is not None:
        kind = filetype.kind
    elif isinstance(source, ByteSource):
        kind = kind_of(source.read_at(0, HEAD_NBYTES), source.name)
        if kind is ZIP:  # the names of its members are at the end, too
            start = max(0, source.size() - _ZIP_TAIL_NBYTES)
            kind = zip_kind(bytes(source.read_at(start, _ZIP_TAIL_NBYTES)))
    else:
        kind = None
    return next((each for each in TARGETS if each.open and kind in each.kinds), None)


def _identified(
    src: Any, storage_options: Mapping[str, Any] | None, stack: ExitStack
) -> tuple[FileType | None, Any, Mapping[str, Any] | None]:
    """Return the type of a source, the source, and the options with which it is still to be opened.

    A file or folder is open, and closed with the `stack`. A list has the type of its first file.
    """
    if isinstance(src, list | tuple) and src:
        filetype, first = identify(src[0], storage_options)
        first.close()
        return filetype, src, storage_options
    is_source = hasattr(src, "keys") and hasattr(src, "read")
    if is_source or isinstance(src, list | tuple) or is_pattern(src):
        return None, src, storage_options
    filetype, source = identify(Place(src), storage_options)
    stack.callback(source.close)
    return filetype, source, None


def _opened(
    filetype: FileType | None,
    src: Any,
    inner: str,
    to: str | None,
    job: CopyJob,
    storage_options: Mapping[str, Any] | None,
    stack: ExitStack,
) -> Any:
    """Return an `ArraySource`, `SeveralArrays` or a source of clips, closed with the `stack`."""
    reader = _reader(filetype, src)
    if isinstance(src, list | tuple) and (reader or (to and _named(to).is_array)):
        raise UnsupportedError(
            "an array is copied from one file, not from a list; bloscpack.savez stores several"
        )
    if reader is None:
        return _opened_clips(filetype, src, stack, job.nthreads, storage_options)
    found = stack.enter_context(reader.read(src, inner, nthreads=job.nthreads))
    if not reader.is_array or found.nbytes is not None:
        return found
    names = found.names
    if not (inner or job.inner):
        target = _target_of_several(to, job)
        if len(names) != 1 or reader.is_mapping:
            is_known = names or reader.is_mapping or found.attrs or job.allow_empty
            if is_known and (target.has_names or not target.is_array):
                return found
        elif (to == "archive" and names != ("",)) or (
            found.attrs and target.has_names and _target(to, None, job, is_array=True) is target
        ):
            return found  # with a place for its name, or for the attrs of the file
    name = only(names, reader.kinds[0].name, src.name)
    job.note(found)
    job.leave_out(*attributes(found.attrs))
    return SeveralArrays.of(stack.enter_context(found.open(name)))


def _opened_clips(
    filetype: FileType | None,
    src: Any,
    stack: ExitStack,
    nthreads: int | None,
    storage_options: Mapping[str, Any] | None,
) -> "FrameSource":
    """Return a source of clips; close it with the `stack` if it was opened here."""
    if hasattr(src, "keys") and hasattr(src, "read"):
        refuse_options(src, storage_options)
        source: FrameSource = src
        return source
    is_local = isinstance(src, ListedFolder) and not src.has_latency
    if is_local and not (filetype and filetype.has_part(src.names)):
        with importing:
            from .picturefolder import FolderSource

        folder = FolderSource(src.name)
        if len(folder):
            return folder
    if isinstance(src, list | tuple | str | os.PathLike):
        return stack.enter_context(
            open_frames(src, nthreads=nthreads, storage_options=storage_options)
        )
    return stack.enter_context(frames_of(filetype, src, nthreads=nthreads))


def _check_options(row: Target | FileType, job: CopyJob) -> None:
    """Raise ValueError for an option that copies of a type, or of a file of a type, do not have."""
    rows: tuple[Target | FileType, ...] = (*TARGETS, *FILETYPES)
    for name in sorted(job.options.keys() - set(row.options)):
        takers = " or ".join(_made(each) for each in rows if name in each.options)
        raise ValueError(f"{name} is for a copy {takers}, not {_made(row)}")


def _made(row: Target | FileType) -> str:
    return f"of type {row.name!r}" if isinstance(row, Target) else f"of {row.kind.name}"


def _named(to: str) -> Target:
    for target in TARGETS:
        if target.name == to:
            return target
    raise ValueError(f"to must be one of {', '.join(each.name for each in TARGETS)}, not {to!r}")


# Suffixes that promise a format that is not written, and what is.
_PICTURES = "to='images' (--to images) writes a folder of pictures, 'blpk sheet' makes one picture"
_FOLDER = "to={0.name!r} (--to {0.name}) writes {0.kind.name}, which is a folder of any name"
_UNWRITTEN = {
    **dict.fromkeys((".bmp", ".webp", ".avif", ".jp2", *IMAGE_SUFFIXES), _PICTURES),
    **dict.fromkeys(set(VIDEO_SUFFIXES) - {".mp4"}, "videos are written as .mp4 or .gif"),
    **dict.fromkeys((".csv", ".tsv", ".txt"), "text is written by 'blpk cat -o FILE.txt'"),
    **{end: _FOLDER.format(row) for row in FILETYPES if row.is_folder for end in row.suffixes},
    **dict.fromkeys(
        (".bz2", ".gz", ".tbz", ".tgz", ".xz", ".zip", ".zst", ".7z"),
        "this compression is not written; .zarr.zip, .npz and .blp are",
    ),
    **dict.fromkeys(
        (
            *(".arrow", ".avro", ".b2frame", ".b2nd", ".cdf", ".dcm", ".feather", ".fits", ".grib"),
            *(".hdf", ".json", ".jsonl", ".mat", ".nii", ".nrrd", ".orc", ".parquet", ".pickle"),
            *(".pkl", ".pt", ".pth", ".rrd", ".safetensors", ".wav", ".xlsx"),
        ),
        "this format is not written; .npy, .h5, .zarr, .nc and .tif are",
    ),
}


def _promised(job: CopyJob) -> str:
    """Return the suffix of the destination that names a type; empty if it may be any of ours.

    Raises
    ------
    ValueError
        It names a format that is not written.
    """
    name = job.name.lower()
    named = [each for target in TARGETS for each in target.suffixes if name.endswith(each)]
    suffix = max(named, key=len, default="")
    unwritten = os.path.splitext(name)[1]
    if not suffix and unwritten in _UNWRITTEN:
        raise ValueError(f"{job.name}: {_UNWRITTEN[unwritten]}")
    return "" if suffix == ".blp" else suffix


def _target(to: str | None, source: Any, job: CopyJob, *, is_array: bool) -> Target:
    """Return the type that a copy is of, after checking that it has the options of the job."""
    target = _named(to) if to else _default(source, job, is_array=is_array)
    _check_options(target, job)
    return target


def _default(source: Any, job: CopyJob, *, is_array: bool) -> Target:
    """Return the type with the longest suffix of the destination that takes the source.

    If two do, arrays stay arrays, and clips stay clips. Options of arrays make an array.
    """
    promised = _promised(job)
    makes_array = not job.options.keys().isdisjoint(ARRAY_OPTIONS)
    fitting = [
        (len(suffix), target.is_array == is_array, -number, target)
        for number, target in enumerate(TARGETS)
        for suffix in target.suffixes
        if job.name.lower().endswith(suffix)
        and (target.is_array or not makes_array)
        and (target.accepts is None or (not is_array and target.accepts(source)))
    ]
    length, _, _, target = max(fitting, key=lambda each: each[:3], default=(0, True, 0, None))
    if length < len(promised):
        kinds = [repr(each.name) for each in TARGETS if promised in each.suffixes]
        raise ValueError(
            f"{job.name}: the source or an option is not for a copy of type {' or '.join(kinds)}, "
            f"which {promised} names; name it .blp, or give the type by to= (--to)"
        )
    return target or _named("array" if is_array or makes_array else "frames")
