"""Opening a file by its type: as an array or an archive, or as clips of frames.

Modules are imported on use: a program that reads one type of file loads no other.
"""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, overload

from ..array.array import Array
from ..container.front import Verify
from ..exceptions import WrongKindError
from ..format.filekind import ARCHIVE, HEAD_NBYTES, kind_of
from ..keywords import explain_keywords
from ..parallel.imports import importing
from ..storage.file import Place, kind_at, open_source
from ..storage.folder.filelist import ListedFolder, expanded, is_pattern
from ..storage.protocol import ByteSource, closed_on_error
from ..storage.remote.source import HEAD_NBYTES as REMOTE_HEAD_NBYTES
from ..storage.url import is_url, refuse_url
from ..types import FRAME_DEFAULTS, AnyArray, ArrayMode, FrameOptions, Mode, OnLostChunk
from .identify import identify, refuse_unread_folder
from .table import ARCHIVES, ARRAYS, FILETYPES, FileType

if TYPE_CHECKING:
    from ..frames.protocol import FrameSource
    from ..frames.store.framestore import FrameStore
    from ..frames.store.manystores import ManyStores

Out = TypeVar("Out")
Function = TypeVar("Function", bound=Callable[..., object])


def known_as(module: str, name: str) -> Callable[[Function], Function]:
    """Return a decorator that renames a function to the name `module` exports it by.

    `help` and tracebacks show that name, and pickle finds the function by it.
    """

    def rename(function: Function) -> Function:
        function.__module__ = module
        function.__name__ = function.__qualname__ = name
        return function

    return rename


def open(  # noqa: A001 - the name users of h5py, zarr and gzip look for
    path: Any,
    mode: ArrayMode = "r",
    *,
    verify: Verify = True,
    nthreads: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    locking: bool = True,
    version: int = -1,
    keep: int | None = None,
) -> Array:
    """Open a Bloscpack file as an array that is read when it is indexed, and can be changed.

    A file of several named arrays is opened as an `Archive` of them.

    Parameters
    ----------
    path : str, PathLike, bytes-like or binary file
        The file, or its URL (``s3://``, ``https://``, any that fsspec knows). A file without array
        metadata is opened as an array of its bytes (uint8). ``path::/name`` is an array of an
        archive.
    mode : {"r", "a", "r+"}, default "r"
        Read; read and append rows; or read and change everything, for which a file of format
        version 3 becomes one of version 4 that bloscpack 0.16 refuses (`compact` makes one of
        version 3 again). An archive is opened in mode "r" or "r+", and its arrays can be added,
        replaced and deleted. "a" and "r+" need a path and allow only one handle at a time.
    verify : bool or "always", default True
        Compare the checksum of each chunk once, the first time it is read; at every read
        ("always"); or never (False).
    nthreads : int, optional
        Threads that decode; by default one per processor, at most 8.
    storage_options : mapping, optional
        Options of fsspec's file system for a URL (keys, ``endpoint_url``, ``headers``).
    locking : bool, default True
        Lock the file in mode "a", so that a second writer is refused. False is for file
        systems without locks, and only if no other program writes to the file; so is
        ``BLOSCPACK_LOCKING=0`` in the environment.
    version : int, default -1
        Version to read (mode "r"), of those that `versions` lists: its number, or counted from the
        newest, which is -1. `Array.refresh` moves on from the newest version only.
    keep : int, optional
        How many versions before the newest stay readable from now on (mode "r+"): each `flush` or
        `close` that writes changes makes a version. The file has the number, so that later writers
        keep to it unless they give another; 0 keeps none.

    Returns
    -------
    Array
        The open array; close it, or use it as a context manager. For a file that `savez` has
        written, an `Archive`: ``open(path)["mask"]`` is one of its arrays. `Archive` itself can be
        called instead, which type checkers understand.

    Raises
    ------
    WrongKindError
        The file is of another type: `NotBloscpackError` if it is not a Bloscpack file. The message
        names the function that reads it.
    FormatError, UnsupportedError
        The file is damaged or of an unknown version; or mode is "a" with a URL.
    LockedError
        Another writer has the file open (mode "a").
    NotFoundError
        The file does not have the version, or the array.
    OSError
        The file cannot be opened; `RemoteError` if a server cannot be reached.
    ImportError
        A library for the URL is missing.
    ValueError
        `mode` is invalid, or files of this type cannot be appended to (mode "a"); `version` or
        `keep` is not for this mode, or `keep` is out of range.

    Notes
    -----
    Opening a URL makes one request, for the first 64 KiB, and a second one if header, metadata and
    offset table are longer. Reading a row makes one more, a selection one per run of chunks. With
    ``verify="always"``, and if the chunks have no checksum, the trailer is read with one more
    request. If the object is replaced by another version, reading raises `FileChangedError`.

    Examples
    --------
    >>> import bloscpack as bp, numpy as np
    >>> bp.save("ramp.blp", np.arange(1000000))
    >>> with bp.open("ramp.blp") as a:
    ...     a[-3:]
    array([999997, 999998, 999999])
    """
    if mode not in ("r", "a", "r+"):
        raise ValueError(
            f"mode must be 'r', 'a' or 'r+', not {mode!r}: 'a' appends rows, 'r+' changes an "
            "array; bloscpack.save and bloscpack.Writer make a new file"
        )
    place = Place.of(path)
    if mode == "r+" and not place.inner and _is_archive(place.path):
        options: Any = {"verify": verify, "nthreads": nthreads, "locking": locking, "keep": keep}
        options |= {"version": version, "storage_options": storage_options}
        return ARCHIVES.open(place.path, mode, **options)  # type: ignore[misc, no-any-return]
    if mode != "r" or place.inner or keep is not None:
        return Array(
            place,
            mode,
            verify=verify,
            nthreads=nthreads,
            storage_options=storage_options,
            locking=locking,
            version=version,
            keep=keep,
        )
    source = open_source(place.path, storage_options)
    # What has been fetched of an object is used again if it is not an array.
    again = source.place(REMOTE_HEAD_NBYTES) if source.has_latency else place.path
    try:
        return Array(source, verify=verify, nthreads=nthreads, version=version)
    except WrongKindError:
        found = _open_other(again, verify, nthreads, version)
        if found is None:
            raise
        return found  # type: ignore[no-any-return]


def _is_archive(path: Any) -> bool:
    """Return whether a local file is an archive by its first bytes."""
    is_local = isinstance(path, str | os.PathLike) and not is_url(path)
    return is_local and os.path.isfile(path) and kind_at(path) is ARCHIVE


def _open_other(where: Any, verify: Verify, nthreads: int | None, version: int) -> Any:
    """Return what the row of another type than the array opens; None without such a row."""
    source = open_source(where)
    with closed_on_error(source, source.name):
        kind = kind_of(source.read_at(0, HEAD_NBYTES), source.name)
        opener = next((row.open for row in FILETYPES if row.kind is kind and row.open), None)
        if opener is not None:
            return opener(source, verify=verify, nthreads=nthreads, version=version)
    source.close()
    return None


class _LoadOptions(TypedDict, total=False):
    """Parameters of `load` that do not change the type of the result."""

    nthreads: int | None
    on_error: OnLostChunk
    fill_value: Any
    storage_options: Mapping[str, Any] | None


@overload
def load(path: Any, *, out: None = None, **options: Unpack[_LoadOptions]) -> AnyArray: ...
@overload
def load(path: Any, *, out: Out, **options: Unpack[_LoadOptions]) -> Out: ...
@explain_keywords()
def load(
    path: Any,
    *,
    out: Any = None,
    nthreads: int | None = None,
    on_error: OnLostChunk = "raise",
    fill_value: Any = 0,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Read a whole array and verify every chunk.

    Parameters
    ----------
    path : str, PathLike, bytes-like or binary file
        A Bloscpack file or its URL. A file without array metadata is read as its bytes (uint8).
        All arrays of an `Archive` are read; `open` reads them when they are indexed, as
        `numpy.load` does.
    out, on_error, fill_value
        As for `Array.read`.
    nthreads : int, optional
        Number of decoding threads. Default: the number of processors, at most 8.
    storage_options : mapping, optional
        Arguments for the fsspec file system of a URL (keys, ``endpoint_url``, ``headers``).

    Returns
    -------
    ndarray
        A new, writable array in the order it was saved; or `out`. For an `Archive` a dict of
        arrays by name.

    Raises
    ------
    FormatError, CodecError
        The file is damaged, or of another type.
    ValueError, TypeError
        `out`, `on_error` or `fill_value` does not fit.
    OSError
        The file cannot be read; `RemoteError` if a server cannot be reached.
    """
    found: Any = open(path, nthreads=nthreads, storage_options=storage_options)
    options: dict[str, Any] = {"on_error": on_error, "fill_value": fill_value}
    with found:
        if isinstance(found, Array):
            return found.read((), out=out, **options)
        if out is not None:
            raise ValueError(f"out is for one array; this is an archive of {len(found)}")
        return {name: array.read((), **options) for name, array in found.items()}


class _OpenOptions(TypedDict, total=False):
    """Parameters of `open_frames` that do not change the type of the result."""

    verify: bool
    nthreads: int | None
    storage_options: Mapping[str, Any] | None
    locking: bool
    exact: bool


@overload
def open_frames(
    path: list[Any] | tuple[Any, ...],
    mode: Literal["r"] = "r",
    **options: Unpack[_OpenOptions],
) -> "ManyStores": ...
@overload
def open_frames(
    path: Any, mode: Literal["r"] = "r", **options: Unpack[_OpenOptions]
) -> "FrameSource": ...
@overload
def open_frames(path: Any, mode: Literal["a"], **options: Unpack[_OpenOptions]) -> "FrameStore": ...
@known_as("bloscpack.frames", "open")
def open_frames(
    path: Any,
    mode: Mode = "r",
    *,
    verify: bool = True,
    nthreads: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    locking: bool = True,
    exact: bool = False,
) -> "FrameSource":
    """Open clips of frames.

    Parameters
    ----------
    path : str, PathLike, bytes-like or binary file, or list of these
        A frame store, a recording, a dataset or a folder of clips, or its URL.
        Several stores are read as one, given as a list or as a pattern (``"part-*.blp"``)
        whose files are sorted by name.
    mode : {"r", "a"}, default "r"
        Read; or read and append, which needs a path and allows only one handle at a time.
    verify : bool, default True
        Compare the checksum of each chunk when it is read.
    nthreads : int, optional
        Threads that decode; by default one per processor, at most 8.
    storage_options : mapping, optional
        Options of fsspec's file system for a URL (keys, ``endpoint_url``, ``headers``).
    locking : bool, default True
        Lock the file in mode "a", so that a second writer is refused. False is for file
        systems without locks, and only if no other program writes to the file; so is
        ``BLOSCPACK_LOCKING=0`` in the environment.
    exact : bool, default False
        Decode JPEG images of frame stores by the exact transform and with smooth chroma, as image
        viewers do. The default is faster, and slightly less accurate.

    Returns
    -------
    FrameStore, ManyStores or another source of clips
        The open source; close it, or use it as a context manager. Clips of several stores are in
        the order of the list.

    Raises
    ------
    WrongKindError
        The file is of another type, or the folder is not one of clips: `NotBloscpackError` if
        it is not a Bloscpack file. The message names the function that reads it.
    FormatError, UnsupportedError
        The file is damaged or of an unknown version.
    LockedError
        Another writer has the file open (mode "a").
    OSError
        The file cannot be opened; `RemoteError` if a server cannot be reached.
    ImportError
        A library for the URL is missing.
    ValueError
        `mode` is invalid, or not available for this type; or two of several stores have a clip of
        the same id.

    Notes
    -----
    Opening a store behind a URL makes one request if it has at most 64 KiB, else two, for its first
    and last 64 KiB; a large index takes one or two more. Reading frames of a clip makes one request
    per run of frames.

    Examples
    --------
    >>> import bloscpack as bp, numpy as np
    >>> with bp.frames.create("clips.blp") as store:
    ...     store.append("walk", np.zeros((16, 4, 6, 3), "u1"), {"label": 3})
    >>> with bp.frames.open("clips.blp") as store:
    ...     store["walk"][::2].shape, store["walk"].meta
    ((8, 4, 6, 3), {'label': 3})
    """
    if isinstance(path, list | tuple) or is_pattern(path):
        if mode != "r":
            raise _reads_only("several stores", mode)
        with importing:
            from ..frames.store.manystores import ManyStores

        paths = expanded(path, storage_options)
        return ManyStores(
            paths,
            verify=verify,
            nthreads=nthreads,
            storage_options=storage_options,
            exact=exact,
        )
    if mode == "a":
        refuse_url(path, "appended to")
    filetype, source = identify(path, storage_options)
    if mode == "r":
        return frames_of(filetype, source, verify=verify, nthreads=nthreads, exact=exact)
    source.close()
    if filetype is not None and not filetype.is_bloscpack:
        raise _reads_only(filetype.kind.name, mode)
    with importing:
        from ..frames.store.framestore import FrameStore

    return FrameStore(path, mode, verify=verify, nthreads=nthreads, locking=locking, exact=exact)


def _reads_only(what: str, mode: str) -> ValueError:
    return ValueError(f"mode must be 'r' for {what}, not {mode!r}")


def frames_of(
    filetype: FileType | None,
    source: ByteSource | ListedFolder,
    *,
    verify: bool = True,
    nthreads: int | None = None,
    exact: bool = False,
) -> "FrameSource":
    """Open the clips of an identified file or folder."""
    with closed_on_error(source):
        refuse_unread_folder(filetype, source)
        if filetype is None or filetype.open_frames is None or filetype.is_bloscpack:
            from ..frames.store.framestore import FrameStore  # its error says what the file is

            return FrameStore(source, verify=verify, nthreads=nthreads, exact=exact)
        if exact:
            raise ValueError(
                f"exact=True is for frame stores, not for {filetype.kind.name}: leave it out, or "
                "convert the clips to a frame store (bloscpack.convert)"
            )
        options = {} if filetype.is_folder else {"nthreads": nthreads}
        return filetype.open_frames(source, **options)


def open_identified(
    filetype: FileType, source: ByteSource | ListedFolder, *, nthreads: int | None = None
) -> Any:
    """Open an identified file or folder as an array, an archive or clips."""
    if filetype is ARRAYS:
        return Array(source, nthreads=nthreads)
    if filetype.open is not None:
        return filetype.open(source, nthreads=nthreads)
    return frames_of(filetype, source, nthreads=nthreads)


@known_as("bloscpack.frames", "create")
@explain_keywords(FRAME_DEFAULTS)
def create_frames(
    path: str | os.PathLike[str],
    *,
    attrs: Mapping[str, Any] | None = None,
    nthreads: int | None = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    locking: bool = True,
    **options: Unpack[FrameOptions],
) -> "FrameStore":
    """Create a frame store, open for appending.

    Parameters
    ----------
    path : str or PathLike
        Path of the new file, which exists at once, without clips. A URL of S3 or of another store
        that fsspec can write to is also possible: the store is a local temporary file until it is
        closed, and then sent. An error inside a ``with`` block sends nothing.
    codec : {"lossless", "jpeg", "video"}, default "lossless"
        Codec of arrays. JPEG and PNG images are stored byte for byte in any case.
    preset : {"fast", "small", "raw"}, default "fast"
        Whether lossless frames decode fast or take little space. "raw" keeps them uncompressed, to
        be read as fast as a memory map, or as a view of it (``clip.read(copy=False)``). Their
        checksums are compared when they are first read, not at each read. H.264 in "small" takes
        6 % less than in "fast", and twice the time to read.
    quality : int, default 90
        JPEG quality, 1 to 100.
    subsampling : {"444", "422", "420"}, default "444"
        Resolution of the chroma of JPEG: full, half the width, or half the width and height, as in
        most videos. Less chroma takes less space and is faster to decode.
    crf : float, default 18
        Quality of video, as its encoder takes it: 0 is the best, 51 or 63 the worst.
    gop : int, default 8
        Frames per group of video, 1 to 255. A random frame of a large group takes longer, and a
        small group takes more space.
    encoder : {"h264", "h265", "vp9", "av1"}, default "h264"
        Encoder of video, if the FFmpeg of PyAV has it.
    attrs : mapping, optional
        JSON values to store with the clips.
    nthreads : int, optional
        Threads that encode and decode; by default one per processor, at most 8.
    overwrite : bool, default False
        Replace an existing file when the store is closed. After an error in a ``with`` block, it
        stays.
    storage_options : mapping, optional
        Options of fsspec's file system for a URL (keys, ``endpoint_url``).
    locking : bool, default True
        Lock the file while it is written, so that a second writer is refused. False is for file
        systems without locks, and only if no other program writes to the file; so is
        ``BLOSCPACK_LOCKING=0`` in the environment.

    Returns
    -------
    FrameStore
        The open store; close it, or use it as a context manager.

    Raises
    ------
    FileExistsError
        The file exists.
    LockedError
        A writer has the file open that is to be replaced.
    TypeError, ValueError
        A parameter is out of range, or `attrs` are not JSON values.
    OSError
        The file cannot be written.
    UnsupportedError
        URLs of this kind cannot be written to (``https://``).
    """
    with importing:
        from ..frames.store.framestore import FrameStore

    return FrameStore.create(
        path,
        attrs=attrs,
        nthreads=nthreads,
        overwrite=overwrite,
        storage_options=storage_options,
        locking=locking,
        **options,
    )
