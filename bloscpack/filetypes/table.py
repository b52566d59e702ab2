"""Tables of file types: those that this package reads, and those that `convert` writes.

A type is a row of each, one folder of the package and one of the tests. The modules of a row are
imported on use, as most programs meet one or two types.
"""

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ..format.filekind import (
    ARCHIVE,
    ARRAY,
    BLOSCPACK_KINDS,
    DATASET,
    FRAME_STORE,
    GIF,
    GULP_DIRECTORY,
    HDF5,
    JPEG,
    NETCDF3,
    NPY,
    PNG,
    RECORDING,
    TAR,
    TIFF,
    VIDEO,
    ZARR,
    ZIP,
    FileKind,
)
from ..parallel.imports import importing

if TYPE_CHECKING:
    from ..damage.report import Report
    from ..frames.protocol import FrameSource
    from ..storage.protocol import ByteSource
    from .copyjob import Conversion

Function = Callable[..., Any]


def on_use(module: str, name: str) -> Function:
    """Return a function that imports a module of ours and calls its function `name`."""

    def call(*args: Any, **options: Any) -> Any:
        with importing:
            found = importlib.import_module(f"bloscpack.{module}")
        return getattr(found, name)(*args, **options)

    return call


class FileType(NamedTuple):
    """Row of the table.

    The functions of arrays are the defaults: their errors name the function that reads the file.
    """

    name: str  # name in results, and of the commands for this type: ``blpk vrs``
    kinds: tuple[FileKind, ...]  # kinds by their first or last bytes that can be of this type
    # Takes an open source and its first bytes, and decides whether it is of this type; None if its
    # kind decides.
    matches: Callable[..., bool] | None = None
    # Takes the source, ``verify`` and ``nthreads``; `bloscpack.open` opens other files as an array.
    open: Function | None = None
    # Takes the source and ``nthreads``.
    open_frames: "Callable[..., FrameSource] | None" = None
    # Takes the source, ``nthreads`` and ``progress``.
    verify: "Callable[..., Report]" = on_use("damage.verify", "verify")
    # Takes the source, the destination, ``nthreads`` and ``progress``.
    recover: "Callable[..., Report]" = on_use("damage.recover", "recover")
    # What to do about damage that ``verify(fix=True)`` cannot repair; empty if it can.
    repair: str = ""
    # Whether `verify` takes ``decode``: otherwise it decodes everything in any case.
    has_decode: bool = False
    unit: str = "chunk"  # of what `recover` counts
    needs_path: bool = False  # whether `recover` writes to a path only, and not to a stream
    # Whether it is a folder; its functions take a `ListedFolder` instead of a source.
    is_folder: bool = False
    # Takes the source and the name of an array in it, and returns a source of it.
    open_member: "Callable[[ByteSource, str], ByteSource] | None" = None
    # Copies a whole file to a frame store, if its clips of frames are only a part of it. Takes the
    # source, ``storage_options``, ``to`` and a `CopyJob`.
    copy: "Callable[..., Conversion] | None" = None
    options: tuple[str, ...] = ()  # names of the `CopyOptions` that `copy` takes
    # What ``blpk info``, ``ls``, ``cat``, ``sheet`` and ``tune`` call: by default, those of clips.
    about: Function = on_use("cli.frames.info", "about")
    entry: Function = on_use("cli.frames.ls", "entry")
    open_part: Function = on_use("cli.frames.cat", "open_part")
    open_tiles: Function = on_use("cli.frames.sheet", "open_tiles")
    tune: Function = on_use("cli.frames.tune", "tune")
    # Views of the page of ``blpk view`` beside those of clips; it asks for the first one first.
    views: Mapping[str, Function] = MappingProxyType({})

    @property
    def kind(self) -> FileKind:
        """Kind of a file of this type, for messages."""
        return self.kinds[0]

    @property
    def is_bloscpack(self) -> bool:
        """Whether it is a Bloscpack file."""
        return self.kind in BLOSCPACK_KINDS


_ARRAY_COMMANDS: dict[str, Any] = {
    "open_part": on_use("cli.array.cat", "open_part"),
    "open_tiles": on_use("cli.array.sheet", "open_tiles"),
    "tune": on_use("cli.array.tune", "tune"),
}
ARRAYS = FileType(
    "array",
    (ARRAY, FRAME_STORE),  # a frame store without a whole index is opened for its error
    matches=on_use("container.front", "is_bloscpack"),
    about=on_use("cli.array.info", "about"),
    **_ARRAY_COMMANDS,
)
ARCHIVES = FileType(
    "archive",
    (ARCHIVE, FRAME_STORE),  # which a damaged header may look like
    matches=on_use("container.members", "is_archive"),
    verify=on_use("archive.verify", "verify_archive"),
    recover=on_use("archive.recover", "recover_archive"),
    open=on_use("archive.reader", "Archive"),
    open_member=on_use("container.members", "open_member"),
    repair="recover writes a new archive of the whole arrays",
    about=on_use("cli.archive.info", "about"),
    **_ARRAY_COMMANDS,
)
FILETYPES = (
    FileType(
        "frames",
        (FRAME_STORE,),
        matches=on_use("frames.store.verify", "is_frame_store"),
        open_frames=on_use("frames.store.framestore", "FrameStore"),
        verify=on_use("frames.store.verify", "verify_store"),
        recover=on_use("frames.store.recoverstore", "recover_store"),
        repair="recover writes a new store of the whole clips",
    ),
    ARCHIVES,
    ARRAYS,
    FileType(
        "gulp",
        (GULP_DIRECTORY,),
        open_frames=on_use("gulp.clipsource", "GulpSource"),
        verify=on_use("gulp.verify", "verify"),
        recover=on_use("gulp.convert", "recover_directory"),
        repair="recover writes a new directory of the whole items",
        has_decode=True,
        unit="item",
        needs_path=True,
        is_folder=True,
        about=on_use("gulp.cli.info", "about"),
        entry=on_use("gulp.cli.ls", "entry"),
    ),
    FileType(
        "vrs",
        (RECORDING,),
        open_frames=on_use("vrs.framesource", "RecordingSource"),
        verify=on_use("vrs.verify", "verify_file"),
        recover=on_use("vrs.recover", "recover_recording"),
        repair="'blpk vrs fix-index' rebuilds an index; recover writes a new recording of the "
        "whole records",
        has_decode=True,
        unit="record",
        needs_path=True,
        options=("preset", "verbatim"),
        copy=on_use("vrs.convert", "copy_to_store"),
        about=on_use("vrs.cli.info", "about"),
        entry=on_use("vrs.cli.ls", "entry"),
        open_part=on_use("vrs.cli.cat", "open_part"),
        tune=on_use("vrs.cli.tune", "tune"),
        views={
            "recording": on_use("vrs.page", "describe"),
            **{
                view: on_use("vrs.page", view) for view in ("timeline", "record", "column", "audio")
            },
        },
    ),
    FileType(
        "bzna",
        (DATASET, VIDEO),
        matches=on_use("benzina.datasetfile", "is_dataset"),
        open_frames=on_use("benzina.dataset", "open"),
        verify=on_use("benzina.verify", "verify"),
        recover=on_use("benzina.recover", "recover_dataset"),
        repair="recover writes a new dataset of the whole samples",
        has_decode=True,
        unit="sample",
        about=on_use("benzina.cli.info", "about"),
        entry=on_use("benzina.cli.ls", "entry"),
        open_part=on_use("benzina.cli.cat", "open_part"),
        open_tiles=on_use("benzina.cli.sheet", "open_tiles"),
        views={
            "dataset": on_use("benzina.page", "describe"),
            "samples": on_use("benzina.page", "samples"),
            "sample": on_use("benzina.page", "sample"),
        },
    ),
)


class Target(NamedTuple):
    """Type of file or folder that `convert` writes; it reads those of other libraries, too."""

    name: str  # value of `to`
    # Takes a `FrameSource`, or `SeveralArrays`, and a `CopyJob`; writes the copy.
    copy: "Callable[..., Conversion]"
    # A copy whose name ends in one has this type by default, unless a longer suffix of another type
    # fits too; empty if a copy has this type only by its name.
    suffixes: tuple[str, ...] = ()
    # Takes the source, and decides whether this type can be the default; None if it always can.
    accepts: Callable[..., bool] | None = None
    options: tuple[str, ...] = ()  # names of the `CopyOptions` that it takes
    is_folder: bool = False  # whether it is a folder
    is_array: bool = False  # whether it holds arrays, and not clips of frames
    kinds: tuple[FileKind, ...] = ()  # kinds of files of other libraries that are read
    # Takes an open source of these kinds, the name of an array or a clip in it, and ``nthreads``.
    # Returns a context manager with `SeveralArrays` or a `FrameSource`.
    open: Function | None = None
    # Whether a copy has several arrays by name.
    has_names: bool = False
    # Whether a file of one array is a file of several, too, and not copied as an array alone.
    is_mapping: bool = False

    def read(self, source: Any, inner: str, *, nthreads: int | None) -> Any:
        """Open a source of one of `kinds`; see `open`."""
        if self.open is None:
            raise TypeError(f"{self.name!r} is only written")
        return self.open(source, inner, nthreads=nthreads)


def _exchange(
    name: str,
    module: str,
    suffixes: tuple[str, ...],
    kinds: tuple[FileKind, ...],
    **options: Any,
) -> Target:
    """Return the row of a type whose functions are named as in its module."""
    module = f"exchange.{module}"
    return Target(
        name,
        on_use(module, f"copy_to_{name}"),
        suffixes,
        kinds=kinds,
        open=on_use(module, f"open_{name}"),
        **options,
    )


_BLOSCPACK = ("codec", "chunks", "access", "clevel", "shuffle", "keepbits")
_NAMED: dict[str, Any] = {"is_array": True, "has_names": True}
_CHUNKED: dict[str, Any] = {**_NAMED, "options": ("chunks",)}
TARGETS = (
    Target("frames", on_use("filetypes.clipcopy", "copy_to_store"), (".blp",), options=("preset",)),
    Target(
        "gulp",
        on_use("gulp.convert", "copy_to_gulp"),
        ("",),
        accepts=on_use("filetypes.clipcopy", "is_store"),
        options=("quality", "videos_per_chunk"),
        is_folder=True,
    ),
    Target(
        "vrs",
        on_use("vrs.convert", "copy_to_recording"),
        (".vrs",),
        accepts=on_use("vrs.store", "is_recording_store"),
    ),
    Target(
        "benzina",
        on_use("benzina.convert", "copy_to_dataset"),
        (".bzna",),
        options=("crf", "codec", "tile"),
    ),
    Target(
        "images",
        on_use("exchange.images", "copy_to_pictures"),
        is_folder=True,
        kinds=(JPEG, PNG),
        open=on_use("exchange.webdataset", "open_image"),
    ),
    _exchange("array", "arraycopy", (".blp",), (ARRAY,), is_array=True, options=_BLOSCPACK),
    _exchange(
        "archive", "arraycopy", (), (ARCHIVE,), **_NAMED, is_mapping=True, options=_BLOSCPACK
    ),
    Target(
        "v3",
        on_use("exchange.arraycopy", "copy_to_v3"),
        is_array=True,
        options=_BLOSCPACK,
    ),
    _exchange("npy", "npy", (".npy",), (NPY,), is_array=True),
    _exchange("npz", "npz", (".npz",), (ZIP,), **_NAMED, is_mapping=True),
    _exchange("hdf5", "hdf5", (".h5", ".hdf5"), (HDF5,), **_CHUNKED),
    _exchange("zarr", "zarrarray", (".zarr", ".zarr.zip"), (ZARR,), **_CHUNKED),
    _exchange("zarr2", "zarrarray", (), (), **_CHUNKED),
    _exchange("tiff", "tiff", (".tif", ".tiff"), (TIFF,), is_array=True),
    _exchange("mp4", "videofile", (".mp4",), (VIDEO, GIF), options=("crf",)),
    Target("gif", on_use("exchange.videofile", "copy_to_gif"), (".gif",)),
    _exchange("webdataset", "webdataset", (".tar",), (TAR,)),
    _exchange("netcdf", "netcdf", (".nc", ".nc4"), (NETCDF3,), **_CHUNKED),
)
# Options that only arrays have make an array, if the destination does not name a type.
ARRAY_OPTIONS = {name for target in TARGETS if target.is_array for name in target.options} - {
    name for target in TARGETS if not target.is_array for name in target.options
}
