"""The architecture: which folder may import which, and how large a folder may grow.

The table of rooms is that of docs/design.md. Every import statement of every module is parsed, so
that a violation fails here and not in a review.
"""

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from .conftest import PACKAGE

# Rooms from the ground up: a folder with its subfolders, or modules at the root. A module imports
# lower rooms and its own. Beside each room, the libraries that it may import.
ROOMS = {
    "ground": {"numpy"},
    "_ext": set[str](),
    "parallel": {"numpy", "simplejpeg", "PIL", "av", "tqdm"},
    "format": {"numpy", "xxhash", "zlib_ng"},
    "storage": {"numpy", "xxhash", "fsspec", "aiohttp"},
    "display": {"numpy", "anywidget"},
    "container": {"xxhash"},
    "array": {"numpy", "xxhash", "dask"},
    "damage": {"numpy", "xxhash"},
    "archive": {"xxhash"},
    "media": {"numpy"},
    "frames": {"numpy", "xxhash"},
    "gulp": {"numpy", "xxhash"},
    "benzina": {"numpy", "torch"},
    "vrs": {"numpy", "xxhash", "pillow_jxl", "compression", "zstandard"},
    "original": {"numpy"},
    "filetypes": {"numpy"},
    "integrations": {
        *("numpy", "dask", "numcodecs", "rerun", "torch", "xarray", "zarr"),
        *("torchcodec", "torchvision"),
    },
    "exchange": {
        *("numpy", "h5netcdf", "h5py", "hdf5plugin", "scipy", "tifffile", "xarray", "zarr"),
    },
    "view": {"numpy", "anyio", "starlette", "uvicorn"},
    "cli": {"numpy", "rich"},
    "package": set[str](),
}
ORDER = {room: at for at, room in enumerate(ROOMS)}
# Modules at the root: what everything may use, the names of bloscpack 0.16, and the package itself.
ROOT = {
    "notice": "ground",
    "exceptions": "ground",
    "types": "ground",
    "version": "ground",
    "abstract_io": "original",
    "append": "original",
    "args": "original",
    "defaults": "original",
    "file_io": "original",
    "numpy_io": "original",
    "__init__": "package",
    "__main__": "package",
}
# The public names of a folder; some open any file type, or need an integration.
PUBLIC_NAMES = {"frames.__init__"}
# Libraries of a room that only these modules import.
ONLY_IN = {
    "torch": {
        "benzina.load.loader",
        "benzina.load.ongpu",
        "benzina.load.torchloader",
        "integrations.torch",
        "integrations.training.devicedecoder",
        "integrations.training.torchbatch",
    },
    "xarray": {
        "exchange.arraylabels",
        "integrations.xarray",
    },
    "zarr": {"exchange.zarrarray", "integrations.zarr"},
    "dask": {"array.daskparts", "integrations.dask"},
    "h5py": {"exchange.hdf5", "exchange.netcdf"},
    "scipy": {"exchange.netcdf"},
    "h5netcdf": {"exchange.netcdf"},
    "tifffile": {"exchange.tiff"},
    "hdf5plugin": {"exchange.hdf5"},
    "numcodecs": {"integrations.numcodecs"},
    "rerun": {"integrations.rerun"},
    "torchcodec": {"integrations.training.devicedecoder"},
    "torchvision": {"integrations.training.devicedecoder"},
    "fsspec": {
        "storage.remote.client",
        "storage.remote.retry",
        "storage.remote.s3upload",
    },
    "aiohttp": {"storage.remote.backends", "storage.remote.errors"},
    "anywidget": {"display.widget"},
    "zstandard": {"vrs.format.zstd"},
    "compression": {"vrs.format.zstd"},
    "pillow_jxl": {"vrs.block.imagecodec"},
    "rich": {"cli.console.table"},
    "tqdm": {"parallel.progressbar"},
    **{library: {"view.server"} for library in ("anyio", "starlette", "uvicorn")},
}
# Modules that import some names on first use, and declare them to the type checker.
LAZY = {
    "__init__",
    "benzina.__init__",
}
# Modules that turn bytes into values and back, and touch nothing outside of them.
PURE = {
    "array.chunkpieces",
    "array.selection",
    "benzina.codec.codecconfig",
    "benzina.codec.colour",
    "benzina.load.affine",
    "benzina.load.samplestream",
    "benzina.mp4.bmff",
    "benzina.mp4.boxes",
    "benzina.mp4.format",
    "benzina.mp4.movie",
    "benzina.mp4.moviewriter",
    "benzina.mp4.sampleindex",
    "benzina.mp4.samplelayout",
    "benzina.mp4.samplewriter",
    "benzina.splits",
    "benzina.transforms",
    "format.archiveindex",
    "format.chunkgrid",
    "format.filekind",
    "format.header",
    "format.journallayout",
    "format.metadata",
    "format.rounding",
    "format.trailer",
    "frames.store.format",
    "frames.video.format",
    "gulp.chunk.format",
    "gulp.chunk.textindex",
    "gulp.gulperrors",
    "media.filename",
    "vrs.block.audio",
    "vrs.block.jxl",
    "vrs.block.normalization",
    "vrs.block.pixels",
    "vrs.block.wav",
    "vrs.format.description",
    "vrs.format.format",
    "vrs.format.indexrecord",
    "vrs.format.payload",
    "vrs.format.recordformat",
    "vrs.format.recordindex",
    "vrs.format.typenames",
    "vrs.format.zstd",
    "vrs.layout.conventions",
    "vrs.layout.datalayout",
    "vrs.layout.pieces",
    "vrs.layout.schema",
    "vrs.layout.standard",
    "vrs.layout.values",
}
IMPURE_LIBRARIES = {"os", "io", "pathlib", "threading", "logging"}
# Imports allowed inside functions: modules that load slowly and that most programs never need.
IMPORTED_ON_USE = {
    "bloscpack.archive",
    "bloscpack.array.axislabels",
    "bloscpack.array.chunkcodec",
    "bloscpack.array.daskparts",
    "bloscpack.display",
    "bloscpack.media.videowriter",
    "bloscpack.array.concat",
    "bloscpack.format.arraychunk",
    "bloscpack.format.chunkgrid",
    "asyncio",
    "hashlib",
    "html",
    "multiprocessing",
    "multiprocessing.connection",
    "multiprocessing.reduction",
    "random",
    "shutil",
    "termios",
    "tty",
    "tempfile",
    "traceback",
    "anywidget",
    "simplejpeg",
    "rich",
    "PIL",
    "av",
    "pillow_jxl",
    "rerun",
    "torchcodec",
    "torchvision",
    "torch",
    "tqdm",
    "xarray",
    "bloscpack.array.rowappender",
    "bloscpack.storage.remote",
    "bloscpack.frames.store",
    "bloscpack.frames.video",
    "bloscpack.cli",
    "bloscpack.filetypes",
    "bloscpack.integrations",
    "bloscpack.view",
}
# Modules of a file type beside its folder: its converter and its commands. Nothing else imports
# them, so that they can be deleted with it (docs/contributing.md).
FILE_TYPES = {
    "gulp": ("filetypes.converters.gulpcopy", "cli.gulp"),
    "vrs": ("filetypes.converters.vrscopy", "cli.vrs", "view.recordings"),
    "benzina": ("filetypes.converters.benzinacopy", "cli.bzna", "view.gallery"),
}
IMPORTED_ON_USE |= {f"bloscpack.{folder}" for folder in FILE_TYPES}
# Modules that may import by name, when something is used: the optional packages of a dtype, the
# file types that most programs never open.
IMPORTS_BY_NAME = {"array.array", "array.dtype", "__init__", "cli.commands", "filetypes.table"}
# Basenames that several folders share, as each means the same everywhere.
SHARED_NAMES = {"__init__", "format", "protocol", "reader", "record", "recover", "utils", "verify"}
SHARED_NAMES |= {"save", "writer"}
# Modules of at most `MAX_THIN` lines of code, and why each is not part of one that imports it.
# Pure modules, commands, converters and names of other projects need no reason.
THIN = {
    "cli.bzna.datasets": "used by several commands",
    "cli.console.description": "what the modules info of all types return",
    "cli.console.selection": "used by several commands",
    "cli.console.status": "used by every command",
    "cli.frames.clips": "used by several commands",
    "cli.gulp.info": "found by the name of the type, as for other types",
    "filetypes.inventory": "used by every reader and writer of other files",
    "filetypes.recover": "imports the code that writes; verification does not",
    "filetypes.verify": "imports only the code that reads",
    "format.bytefield": "used by several formats",
    "frames.store.openclip": "imports code for video on use; clip.py is imported by that",
    "frames.store.summary": "read from the index by several modules",
    "frames.verify": "each file type has one",
    "gulp.chunk.ids": "reads files; gulp.chunk.format is pure",
    "gulp.chunk.serializer": "classes of GulpIO2, which programs may replace",
    "gulp.clipmetadata": "the part of clips that conversions share",
    "gulp.ingest.chunkwriter": "a class of GulpIO2, which programs may replace",
    "integrations.cluster": "imports Dask on use",
    "integrations.numcodecs": "numcodecs imports it by name",
    "integrations.training.passes": "base class of both loaders",
    "notice": "every room uses it",
    "parallel.arraypool": "used by several rooms",
    "parallel.imports": "every room uses it",
    "parallel.scratch": "used by several rooms",
    "storage.memory": "one of the sources",
    "storage.url": "used by several rooms",
    "types": "every room uses it",
    "version": "read without importing the package",
    "view.export": "needs no server, unlike the rest",
    "vrs.export.imagefile": "bytes of files; vrs.export.extraction writes them",
    "vrs.layout.standard": "a table",
    "vrs.read.iteration": "read by several modules",
    "vrs.read.keyframes": "one rule of the format; vrs.read.decoding is long enough",
    "vrs.read.openreport": "a public class",
    "vrs.store.storeprogress": "used by both directions",
}
MAX_THIN = 40
MAX_AT_ROOT = 12
MAX_IN_FOLDER = 18


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


MODULES = {module_name(path): ast.parse(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")}


def over(modules: Iterable[str]) -> Callable[[Callable[[str], None]], Callable[[], None]]:
    """Make one test of a check of each module, which fails with the messages of all of them.

    As a test of its own, each of these thousands of checks would take longer to start than to run.
    """

    def decorate(check: Callable[[str], None]) -> Callable[[], None]:
        def test() -> None:
            failed = []
            for module in modules:
                try:
                    check(module)
                except AssertionError as err:
                    failed.append(f"{module}: {err}")
            assert not failed, "\n".join(failed)

        test.__doc__ = check.__doc__
        return test

    return decorate


each_module = over(sorted(MODULES))


def room(module: str) -> str:
    """Return the row of `ROOMS` that a module belongs to."""
    top, _, inner = module.partition(".")
    return top if inner or top in ROOMS else ROOT[top]


def is_module(name: str) -> bool:
    return name in MODULES or f"{name}.__init__" in MODULES


@cache
def imports(module: str) -> list[tuple[str, ast.Import | ast.ImportFrom]]:
    """Return ("bloscpack.x" or library, statement) for every import, wherever it stands."""
    return list(_imports(module))


def _imports(module: str) -> Iterator[tuple[str, ast.Import | ast.ImportFrom]]:
    folder = module.split(".")[:-1]
    for node in ast.walk(MODULES[module]):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node
        elif isinstance(node, ast.ImportFrom):
            base = node.module.split(".") if node.module else []
            if node.level:
                base = ["bloscpack", *folder[: len(folder) - node.level + 1], *base]
            for alias in node.names:
                inner = ".".join([*base[1:], alias.name])
                found = inner if base[0] == "bloscpack" and is_module(inner) else None
                yield f"bloscpack.{found}" if found else ".".join(base), node


def own_imports(module: str) -> Iterator[tuple[str, int]]:
    """Yield (module of ours, line) for every import."""
    for name, node in imports(module):
        if name == "bloscpack":
            yield "__init__", node.lineno
        elif name.startswith("bloscpack."):
            yield name.removeprefix("bloscpack."), node.lineno


@each_module
def test_every_module_has_a_room(module: str) -> None:
    assert room(module) in ROOMS, f"give {module} a place in ROOMS and in docs/design.md"


@each_module
def test_imports_go_down(module: str) -> None:
    here = room(module)
    wrong = [
        f"line {line}: {name}"
        for name, line in own_imports(module)
        if ORDER[room(name)] > ORDER[here] and module not in PUBLIC_NAMES
    ]
    assert not wrong, f"{module} ({here}) imports higher rooms: {wrong}"


@each_module
def test_pure_modules_import_pure_modules_of_their_room(module: str) -> None:
    if module in PURE:
        impure = [
            name
            for name, _ in own_imports(module)
            if room(name) == room(module) and name not in PURE and room(name) != "format"
        ]
        assert not impure


@each_module
def test_only_named_libraries(module: str) -> None:
    tops = {name.split(".")[0] for name, _ in imports(module)}
    libraries = {top for top in tops if top not in sys.stdlib_module_names and top != "bloscpack"}
    libraries |= tops & {"compression"}
    assert not libraries - ROOMS[room(module)]
    assert not [name for name in libraries if module not in ONLY_IN.get(name, {module})]


def file_type(module: str) -> str | None:
    """Return the folder of the file type that a module belongs to, if it belongs to one."""
    for folder, others in FILE_TYPES.items():
        if any(f"{module}.".startswith(f"{each}.") for each in (folder, *others)):
            return folder
    return None


@each_module
def test_a_file_type_is_imported_by_its_own_modules_only(module: str) -> None:
    wrong = [
        f"line {line}: {name}"
        for name, line in own_imports(module)
        if file_type(name) not in (None, file_type(module)) and module != "__init__"
    ]
    assert not wrong, f"{module}: reach a file type through filetypes/table.py: {wrong}"


def subfolder(module: str) -> str:
    return ".".join(module.split(".")[:2]) if module.count(".") > 1 else ""


def test_no_cycle_between_the_subfolders_of_a_room() -> None:
    graph = defaultdict[str, set[str]](set)
    for module in MODULES:
        for name, _ in own_imports(module):
            here, there = subfolder(module), subfolder(name)
            if here and there and here != there and room(module) == room(name):
                graph[here].add(there)
    assert_no_cycle(graph)


def test_no_cycle_between_modules() -> None:
    assert_no_cycle({module: {name for name, _ in own_imports(module)} for module in MODULES})


def assert_no_cycle(graph: dict[str, set[str]]) -> None:
    done: set[str] = set()

    def visit(node: str, path: tuple[str, ...]) -> None:
        assert node not in path, f"cycle: {' -> '.join([*path, node])}"
        if node not in done:
            for other in graph.get(node, ()):
                visit(other, (*path, node))
            done.add(node)

    for node in list(graph):
        visit(node, ())


def test_folders_stay_small() -> None:
    folders = Counter(module.rpartition(".")[0] for module in MODULES if "__init__" not in module)
    root = folders.pop("") + 1
    assert root <= MAX_AT_ROOT
    assert {folder: n for folder, n in folders.items() if n > MAX_IN_FOLDER} == {}


def lines_of_code(tree: ast.Module) -> int:
    """Return the number of lines on which code starts, without docstrings."""
    return len(
        {
            node.lineno
            for node in ast.walk(tree)
            if isinstance(node, ast.stmt | ast.expr)
            and not isinstance(node, ast.Constant)
            and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        }
    )


def test_thin_modules_have_a_reason() -> None:
    # Commands for every type find these functions in the folder of a type.
    by_name = {"run", "show", "entry", "open_part", "open_tiles", "tune"}

    def is_command(module: str) -> bool:
        defined = {node.name for node in MODULES[module].body if isinstance(node, ast.FunctionDef)}
        return module.startswith("cli.") and bool(defined & by_name)

    fixed = {"gulp.adapters", "gulp.fileio", "gulp.sanity_utils", "gulp.utils", "__main__"}
    thin = {
        module
        for module, tree in MODULES.items()
        if lines_of_code(tree) <= MAX_THIN
        and not module.endswith("__init__")
        and not module.startswith(("vrs.pyvrs.", "filetypes.converters."))
        and module not in fixed
        and module not in PURE
        and ROOT.get(module) != "original"
        and not is_command(module)
    }
    assert thin <= THIN.keys(), "merge them into the modules that import them, or say why not"
    assert THIN.keys() <= MODULES.keys()


def test_a_file_name_means_one_thing() -> None:
    # A command's module has the name of the command; the names of 0.16 are fixed.
    names = Counter(
        module.rpartition(".")[2]
        for module in MODULES
        if not module.startswith("cli.") and ROOT.get(module) != "original"
    )
    assert {name for name, n in names.items() if n > 1} <= SHARED_NAMES


def test_tests_mirror_the_package() -> None:
    ours = {folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").exists()}
    tests = {folder.name for folder in Path(__file__).parent.iterdir() if folder.is_dir()}
    assert ours - {"_ext"} <= tests


@over(sorted(PURE))
def test_pure_modules_touch_nothing_outside(module: str) -> None:
    found = {name.split(".")[0] for name, _ in imports(module)}
    assert not found & IMPURE_LIBRARIES


@each_module
def test_threads_and_processes_are_started_in_one_place_each(module: str) -> None:
    starters = {"concurrent", "multiprocessing", "asyncio", "_thread"}
    found = {name.split(".")[0] for name, _ in imports(module)} & starters
    # The clients of fsspec are coroutines on a loop of its own.
    clients = {"client", "s3upload", "s3join", "retry", "backends", "errors"}
    assert (
        not found
        or module in ("parallel.threads", "parallel.processes", "parallel.sharedring")
        or module in {f"storage.remote.{name}" for name in clients}
    )


def subclasses(base: str) -> set[str]:
    """Return the names of all classes below `base`, in any module."""
    parents = defaultdict[str, set[str]](set)
    for tree in MODULES.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                parents[node.name] |= {ast.unparse(parent) for parent in node.bases}
    found: set[str] = set()
    while more := {name for name in parents if parents[name] & {base, *found}} - found:
        found |= more
    return found


CLASSES_OF_STORAGE = {*subclasses("ByteSource"), "RemotePlace"}


@over([name for name in sorted(MODULES) if room(name) != "storage"])
def test_only_storage_asks_for_the_class_of_a_source(module: str) -> None:
    """Elsewhere, a reader asks what a source can do; then a new storage can do it as well."""
    asked = [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(MODULES[module])
        if isinstance(node, ast.Call)
        and {"isinstance", "issubclass", "is_remote"} & names_in(node.func)
        and {"is_remote", *CLASSES_OF_STORAGE} & names_in(node)
    ]
    assert not asked, f"{module}: use a member of ByteSource (storage/protocol.py): {asked}"


def names_in(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


@each_module
def test_imports_inside_functions_are_of_rarely_used_modules(module: str) -> None:
    inside = {
        id(inner)
        for node in ast.walk(MODULES[module])
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
    }
    wrong = {
        (name, node.lineno)
        for name, node in imports(module)
        if id(node) in inside
        and not any(
            name == allowed or name.startswith(f"{allowed}.") for allowed in IMPORTED_ON_USE
        )
    }
    assert not wrong, f"{module} imports inside a function: {wrong}"


# Imports inside functions without `importing`, by the beginning of the module's name, and why no
# thread can fork while they run, or why a child does not need the module.
UNGUARDED = {
    "cli.": "a command starts its threads later",
    "filetypes.open": "loaded already: the file is a frame store",
    "integrations.cluster": "the program calls it once, and workers are other processes",
    "exchange.": "a conversion opens its source before it starts threads",
    "parallel.processes": "loaded already: by multiprocessing, which made the pool",
    "parallel.threads": "loaded already: it is called by a running event loop",
}


@each_module
def test_imports_inside_functions_wait_for_forks(module: str) -> None:
    """A child that is forked during an import inherits its lock, and its own import hangs."""
    guarded = {
        id(inner)
        for node in ast.walk(MODULES[module])
        if isinstance(node, ast.With)
        and any(ast.unparse(item.context_expr) == "importing" for item in node.items)
        for inner in ast.walk(node)
    }
    wrong = {
        f"line {inner.lineno}"
        for node in ast.walk(MODULES[module])
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Import | ast.ImportFrom) and id(inner) not in guarded
    }
    assert not wrong or module.startswith(tuple(UNGUARDED)), (
        f"{module} imports without `parallel.imports.importing`: {sorted(wrong)}"
    )


@each_module
def test_import_by_name_only_where_allowed(module: str) -> None:
    tree = MODULES[module]
    by_name = any(name.split(".")[0] == "importlib" for name, _ in imports(module)) or any(
        isinstance(node, ast.Name) and node.id == "__import__" for node in ast.walk(tree)
    )
    parts = {name for name, _ in imports(module) if name.startswith("importlib")}
    # These check for a package without importing it.
    is_harmless = parts <= {"importlib.metadata", "importlib.util"}
    assert not by_name or module in IMPORTS_BY_NAME or is_harmless


@each_module
def test_no_pickle_and_no_eval(module: str) -> None:
    found = {name.split(".")[0] for name, _ in imports(module)}
    # One format is a pickle; its reader builds two types and refuses all others.
    allowed = {"pickle"} if module == "gulp.chunk.pickledindex" else set()
    assert not (found - allowed) & {"pickle", "marshal", "shelve", "dill"}
    called = {
        node.func.id
        for node in ast.walk(MODULES[module])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & {"eval", "exec", "compile"}


@over([name for name in MODULES if name.endswith("__init__") and not name.startswith("cli.")])
def test_init_files_only_reexport(module: str) -> None:
    allowed = ast.Import | ast.ImportFrom | ast.Assign | ast.Expr
    for node in MODULES[module].body:
        is_lazy = module in LAZY
        if is_lazy and isinstance(node, ast.FunctionDef):
            assert node.name in ("__getattr__", "__dir__")
            continue
        if isinstance(node, ast.FunctionDef):
            assert node.name == "__dir__"
            continue
        if is_lazy and isinstance(node, ast.If):
            assert ast.unparse(node.test) in ("TYPE_CHECKING", "sys.platform == 'win32'")
            continue
        assert isinstance(node, allowed), f"{module}, line {node.lineno}: code"
        if isinstance(node, ast.Expr):
            assert isinstance(node.value, ast.Constant)
        if isinstance(node, ast.Assign):
            assert [target.id for target in node.targets if isinstance(target, ast.Name)] == [
                "__all__"
            ]


def test_no_catch_all_modules() -> None:
    banned = {"util", "utils", "helpers", "common", "misc", "base"}
    names = set(MODULES) - {"gulp.utils", "vrs.pyvrs.utils"}  # names of GulpIO2 and pyvrs
    assert not banned & {part for module in names for part in module.split(".")}


def test_every_kernel_has_a_stub() -> None:
    kernels = {path.stem for path in (PACKAGE.parent / "ext").glob("*.pyx")}
    assert kernels == {path.stem for path in (PACKAGE / "_ext").glob("*.pyi")}
