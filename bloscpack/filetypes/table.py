"""Tables of file types: those that this package reads, and those that `convert` writes.

The types of the core are rows here. Each of `GUESTS` declares its own rows, and those of its
commands, in its module `rows`: deleting its folder deletes them. The modules of a row are imported
on use, as most programs meet one or two types.
"""

import importlib
import os
from collections.abc import Callable, Iterable, Mapping
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ..format.filekind import ARCHIVE, ARRAY, BLOSCPACK_KINDS, FRAME_STORE, FileKind
from ..parallel.imports import importing

if TYPE_CHECKING:
    from ..damage.report import Report
    from ..frames.protocol import FrameSource
    from ..storage.protocol import ByteSource
    from .copyjob import Conversion

Function = Callable[..., Any]
_NONE: Mapping[str, Any] = MappingProxyType({})


def on_use(module: str, name: str) -> Function:
    """Return a function that imports a module of ours and calls its function `name`."""

    def call(*args: Any, **options: Any) -> Any:
        with importing:
            found = importlib.import_module(f"bloscpack.{module}")
        return getattr(found, name)(*args, **options)

    return call


# Modules of functions that commands call, in the folder of the commands of a type.
_MODULES = {"about": "info", "entry": "ls", "open_part": "cat", "open_tiles": "sheet"}


def verbs(folder: str, *names: str) -> dict[str, Any]:
    """Return functions that commands call, by their names in a row of the table."""
    return {name: on_use(f"{folder}.{_MODULES.get(name, name)}", name) for name in names}


class FileType(NamedTuple):
    """Row of the table.

    The functions of arrays are the defaults: their errors name the function that reads the file.
    """

    name: str  # name in results, and of the group of commands for this type
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
    # Takes the path and ``progress``, and writes the smallest file of the same content in its
    # place; None if there is nothing that can be left out.
    compact: Function | None = None
    # Takes the path, and returns a context manager: a mapping of the parts of the file, from which
    # they can be deleted, and which has a method ``rename(old, new)``.
    open_parts: Function | None = None
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
    # Names of the `CopyOptions` that `copy` takes, and the help of each; see `Target`.
    options: Mapping[str, str] = _NONE
    suffixes: tuple[str, ...] = ()  # of its files, or of those in a folder of this type
    # What ``blpk ls`` shows in place of a dtype, by the kind in its JSON.
    dtypes: Mapping[str, str] = _NONE
    # What ``blpk info``, ``ls``, ``cat``, ``sheet`` and ``tune`` call: by default, those of clips.
    about: Function = on_use("cli.frames.info", "about")
    entry: Function = on_use("cli.frames.ls", "entry")
    open_part: Function = on_use("cli.frames.cat", "open_part")
    open_tiles: Function = on_use("cli.frames.sheet", "open_clip_tiles")
    tune: Function = on_use("cli.frames.tune", "tune_clips")
    # Views of the page of ``blpk view`` beside those of clips; it asks for the first one first.
    views: Mapping[str, Function] = _NONE

    @property
    def kind(self) -> FileKind:
        """Kind of a file of this type, for messages."""
        return self.kinds[0]

    @property
    def is_bloscpack(self) -> bool:
        """Whether it is a Bloscpack file."""
        return self.kind in BLOSCPACK_KINDS

    def has_part(self, names: Iterable[str]) -> bool:
        """Return whether any of the files in a folder belongs to a folder of this type."""
        return self.is_folder and any(name.lower().endswith(self.suffixes) for name in names)


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
    # Names of the `CopyOptions` that it takes, and what ``blpk convert --help`` says of each; empty
    # if another row or `cli/convert.py` has the text.
    options: Mapping[str, str] = _NONE
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


class Command(NamedTuple):
    """Command of ``blpk``.

    Its module is imported when the command is named, so that others do not wait for it. It has two
    functions: ``add_arguments(parser)``, which also sets the description, and ``run(args)``, which
    returns the exit code.
    """

    name: str  # name on the command line
    summary: str  # for the list of commands in the help
    module: str  # name below ``bloscpack``
    aliases: tuple[str, ...] = ()  # other names
    options: str = ""  # module that adds options of a verb for one type, by ``add_options(parser)``


class Group(NamedTuple):
    """Command that has only subcommands, like ``blpk frames``."""

    name: str
    summary: str
    description: str
    kinds: tuple[str, ...]  # types of files that its verbs take; the first is named in errors
    commands: tuple[Command, ...]


# Folders that can be deleted, in the order in which the help lists their commands.
GUESTS = ("view", "gulp", "vrs", "benzina", "exchange")


def _load(guest: str) -> Any:
    """Return the module `rows` of a guest, without importing its package, which loads all of it."""
    folder = os.path.join(os.path.dirname(os.path.dirname(__file__)), guest)
    spec = PathFinder.find_spec(f"bloscpack.{guest}.rows", [folder])
    if spec is None or spec.loader is None:
        return None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_LOADED = [_load(guest) for guest in GUESTS]


def _rows(table: str) -> list[Any]:
    """Return the rows of all guests for a table."""
    return [row for module in _LOADED for row in getattr(module, table, ())]


_ARRAY = verbs("cli.array", "open_part", "open_tiles", "tune") | {"suffixes": (".blp",)}
ARRAYS = FileType(
    "array",
    (ARRAY, FRAME_STORE),  # a frame store without a whole index is opened for its error
    matches=on_use("container.front", "is_bloscpack"),
    compact=on_use("container.compact", "compact_array"),
    about=on_use("cli.array.info", "about"),
    **_ARRAY,
)
ARCHIVES = FileType(
    "archive",
    (ARCHIVE, FRAME_STORE),  # which a damaged header may look like
    matches=on_use("container.members", "is_archive"),
    verify=on_use("archive.verify", "verify_archive"),
    recover=on_use("archive.recover", "recover_archive"),
    open=on_use("archive.reader", "Archive"),
    open_member=on_use("container.members", "open_member"),
    compact=on_use("archive.save", "compact_archive"),
    open_parts=on_use("archive.reader", "open_parts"),
    repair="recover writes a new archive of the whole arrays",
    about=on_use("cli.archive.info", "about"),
    **_ARRAY,
)
FILETYPES: tuple[FileType, ...] = (
    FileType(
        "frames",
        (FRAME_STORE,),
        suffixes=(".blp",),
        matches=on_use("frames.store.verify", "is_frame_store"),
        open_frames=on_use("frames.store.framestore", "FrameStore"),
        verify=on_use("frames.store.verify", "verify_store"),
        recover=on_use("frames.store.recoverstore", "recover_store"),
        compact=on_use("frames.store.recoverstore", "compact_store"),
        open_parts=on_use("frames.store.framestore", "open_parts"),
        repair="recover writes a new store of the whole clips",
    ),
    ARCHIVES,
    ARRAYS,
    *_rows("FILETYPES"),
)

# `cli/convert.py` has their help.
_CLIPS = {"preset": ""}
_BLOSCPACK = dict.fromkeys(
    ("codec", "chunks", "access", "clevel", "shuffle", "keepbits", "stats"), ""
)
TARGETS: tuple[Target, ...] = (
    Target("frames", on_use("filetypes.clipcopy", "copy_to_store"), (".blp",), options=_CLIPS),
    Target(
        "array",
        on_use("filetypes.arraycopy", "copy_to_array"),
        (".blp",),
        is_array=True,
        kinds=(ARRAY,),
        open=on_use("filetypes.arraycopy", "open_array"),
        options=_BLOSCPACK,
    ),
    Target(
        "archive",
        on_use("filetypes.arraycopy", "copy_to_archive"),
        is_array=True,
        has_names=True,
        is_mapping=True,
        kinds=(ARCHIVE,),
        open=on_use("filetypes.arraycopy", "open_archive"),
        options=_BLOSCPACK,
    ),
    Target("v3", on_use("filetypes.arraycopy", "copy_to_v3"), is_array=True, options=_BLOSCPACK),
    *_rows("TARGETS"),
)
# Options that only arrays have make an array, if the destination does not name a type.
ARRAY_OPTIONS = {name for target in TARGETS if target.is_array for name in target.options} - {
    name for target in TARGETS if not target.is_array for name in target.options
}
COMMANDS: tuple[Command | Group, ...] = tuple(_rows("COMMANDS"))  # cli/commands.py has the others
