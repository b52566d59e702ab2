"""The architecture: which folder may import which, which libraries, and what a module may do.

The order of the rooms is that of docs/design.md. Every import of every module is parsed, so that a
violation fails here and not in a review. Each rule takes a module, and yields what is wrong in it.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import TopologicalSorter

import pytest

from .conftest import PACKAGE

# Folders and modules at the root, from the ground up. A module imports its own row and those above.
ROOMS = (
    ("exceptions", "keywords", "notice", "types", "version"),
    *(("_ext",), ("parallel",), ("format",), ("storage",), ("display",), ("container",)),
    *(("array",), ("damage",), ("archive",), ("media",), ("frames",)),
    ("original", "abstract_io", "args", "defaults", "file_io", "numpy_io"),
    *(("filetypes",), ("integrations", "append"), ("cli",), ("plugin",)),
    ("gulp", "vrs", "benzina", "exchange", "view"),
    ("__init__", "__main__"),
)
LEVEL = {top: level for level, tops in enumerate(ROOMS) for top in tops}
# Folders that can be deleted (docs/contributing.md). Only their own modules import them, and others
# reach them through filetypes/table.py. Of ours, they import plugin.py only.
GUESTS = ("gulp", "vrs", "benzina", "exchange", "view")
# Guests with files of their own, and public names.
FILE_TYPES = [name for name in GUESTS[:3] if (PACKAGE / name).exists()]
# They name what users import from the folder, of any room.
PUBLIC_NAMES = {"__init__", "frames.__init__"}
# Libraries that only these folders and modules import. Of the standard library, only `RESTRICTED`
# needs a row.
LIBRARIES = {
    "": {"numpy", "xxhash"},
    **{name: {"importlib"} for name in ("__init__", "array.dtype", "cli.commands")},
    "archive.table": {"pandas"},
    "array.daskparts": {"dask"},
    "benzina.load": {"torch"},
    "cli.console": {"rich"},
    "display.widget": {"anywidget"},
    "exchange": {"h5netcdf", "h5py", "hdf5plugin", "tifffile"},
    **{name: {"importlib"} for name in ("filetypes.table", "plugin")},
    "format": {"zlib_ng"},
    "gulp.chunk.pickledindex": {"pickle"},  # it builds two types, and refuses all others
    "integrations.training": {"torch", "torchcodec", "torchvision"},
    **{f"integrations.{name}": {name} for name in ("dask", "numcodecs", "rerun", "torch")},
    **{name: {"xarray"} for name in ("array.cfencoding", "filetypes.arraylabels")},
    "integrations.xarraydataset": {"asyncio", "xarray"},
    **{name: {"zarr"} for name in ("integrations.zarr", "exchange.zarrarray")},
    "parallel.imports": {"PIL", "av", "simplejpeg"},
    **{name: {"multiprocessing"} for name in ("parallel.processes", "parallel.sharedring")},
    "parallel.progressbar": {"tqdm"},
    "parallel.threads": {"asyncio", "concurrent"},
    "storage.remote": {"aiohttp", "asyncio", "concurrent", "fsspec"},  # clients are coroutines
    "view.server": {"anyio", "starlette", "uvicorn"},
    "vrs.block.imagecodec": {"pillow_jxl"},
    "vrs.format.zstd": {"compression", "zstandard"},
}
RESTRICTED = {"_thread", "asyncio", "compression", "concurrent", "importlib", "multiprocessing"}
RESTRICTED |= {"marshal", "pickle", "shelve"}
# Folders that turn bytes into values and back, and touch nothing outside of them; so do modules
# called `format`, and others whose docstring says "Pure".
PURE = ("format", "benzina.mp4", "vrs.block", "vrs.format", "vrs.layout")
IMPURE_LIBRARIES = {"logging", "os", "pathlib", "socket", "subprocess", "tempfile", "threading"}
# What functions may import, beside optional libraries and guests: it loads slowly, and most
# programs never need it.
IMPORTED_ON_USE = (
    *("asyncio", "ctypes", "hashlib", "multiprocessing", "random", "shutil"),
    *("tempfile", "termios", "traceback", "tty"),
    *(f"bloscpack.{room}" for room in ("archive", "cli", "display", "filetypes", "integrations")),
    *(f"bloscpack.array.{module}" for module in ("axislabels", "cfencoding", "changes", "concat")),
    *(f"bloscpack.array.{module}" for module in ("chunkcodec", "daskparts", "labelled")),
    *(f"bloscpack.array.{module}" for module in ("archivechanges", "rowappender", "statistics")),
    *("bloscpack.array.writable", "bloscpack.storage.remote"),
    *(f"bloscpack.container.{name}" for name in ("compact", "logchunks", "logreader", "members")),
    "bloscpack.container.salvagelog",
    *(f"bloscpack.format.{module}" for module in ("arraychunk", "chunkgrid", "log", "statistics")),
    *(f"bloscpack.frames.{folder}" for folder in ("store", "video")),
    *("bloscpack.media.videowriter", "bloscpack.parallel.progressbar"),
)
# Parts of names of modules that do so without `importing`, and why no thread can fork while they
# run, or why a child does not need the module.
UNGUARDED = {
    "cli.": "a command starts its threads later",
    "filetypes.open": "loaded already: the file is a frame store",
    "integrations.cluster": "the program calls it once, and workers are other processes",
    "parallel.": "loaded already: by a pool of multiprocessing, or a running event loop",
}
MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
    for path in PACKAGE.rglob("*.py")
}
OURS = {f"bloscpack.{module}" for module in MODULES}
STORAGE = "".join(path.read_text("utf-8") for path in (PACKAGE / "storage").rglob("*.py"))
SOURCES = {*re.findall(r"(?m)^class (?!ByteSource)(\w+(?:Source|Place|File))\b", STORAGE)}
ALWAYS_THERE = sys.stdlib_module_names | {"numpy", "xxhash"}


@cache  # not parsed at import: every worker of pytest imports this module, and one runs the tests
def parsed(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text("utf-8"))


def is_below(name: str, *places: str) -> bool:
    return f"{name}.".startswith(tuple(f"{place}." if place else "" for place in places))


@cache
def imports(module: str, tree: ast.AST) -> list[tuple[str, int]]:
    """Return ("bloscpack.x" or library, line) for every import, wherever it stands."""
    folder, found = module.split(".")[:-1], list[tuple[str, int]]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module.split(".") if node.module else []
            if node.level:
                base = ["bloscpack", *folder[: len(folder) - node.level + 1], *base]
            for alias in node.names:
                inner = ".".join([*base, alias.name])
                is_module = inner in OURS or f"{inner}.__init__" in OURS
                found.append((inner if is_module else ".".join(base), node.lineno))
    return found


def own_imports(module: str, tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield (module of ours, line) for every import."""
    for name, line in imports(module, tree):
        if is_below(name, "bloscpack"):
            yield name.removeprefix("bloscpack").lstrip(".") or "__init__", line


def guest(module: str) -> str | None:
    """Return the guest that a module belongs to."""
    top = module.split(".")[0]
    return top if top in GUESTS else None


def imports_upward(module: str, tree: ast.Module) -> Iterator[str]:
    here = guest(module)
    level = LEVEL.get(module.split(".")[0], -1)
    if level < 0:
        yield "it has no place in ROOMS and in docs/design.md"
    for name, line in own_imports(module, tree) if module not in PUBLIC_NAMES else ():
        there = guest(name)
        # The viewer loads the module `page` of a guest.
        if there and there != here and not (there == "view" and module == f"{here}.page"):
            yield f"line {line}: {name} is of a guest; reach it through filetypes/table.py"
        elif not there and LEVEL.get(name.split(".")[0], level) > level:
            yield f"line {line}: {name} is higher"
        elif here and not there and name.split(".")[0] not in ("plugin", "_ext"):
            yield f"line {line}: {name} is of the core; import it from plugin.py"
        elif is_below(name, "cli") and not {"cli", "__main__", "plugin"} & set(module.split(".")):
            yield f"line {line}: {name} is for commands"


def imports_foreign_library(module: str, tree: ast.Module) -> Iterator[str]:
    allowed = set[str]().union(*(LIBRARIES[each] for each in LIBRARIES if is_below(module, each)))
    allowed |= {"bloscpack"} | sys.stdlib_module_names - RESTRICTED
    allowed |= {"importlib.metadata", "importlib.util"}  # they look for a package, and import none
    for name, line in imports(module, tree):
        if not allowed & {name, name.split(".")[0]}:
            yield f"line {line}: {name} is not in a row of LIBRARIES"


def is_pure(module: str) -> bool:
    text = ast.get_docstring(parsed(module)) if module in MODULES else None
    says_so = re.search(r"\bPure[:.]", text or "")
    return bool(says_so) or is_below(module, *PURE) or module.endswith(".format")


def is_impure(module: str, tree: ast.Module) -> Iterator[str]:
    for name, line in imports(module, tree) if is_pure(module) else ():
        own = name.removeprefix("bloscpack.")
        if name.split(".")[0] in IMPURE_LIBRARIES:
            yield f"line {line}: {name} reaches outside of a pure module"
        elif own.split(".")[0] == module.split(".")[0] and not is_pure(own):
            yield f"line {line}: {own} of the same room is not pure"


def imports_inside_functions(module: str, tree: ast.Module) -> Iterator[str]:
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.With)]
    locked = [node for node in blocks if ast.unparse(node.items[0].context_expr) == "importing"]
    guarded = {inner for node in locked for inner in ast.walk(node)}
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    for node in {inner for function in functions for inner in ast.walk(function)}:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        # A child that is forked during an import inherits its lock, and its own import hangs.
        if node not in guarded and not any(each in f"{module}." for each in UNGUARDED):
            yield f"line {node.lineno}: it imports without `parallel.imports.importing`"
        for name, _ in imports(module, node):
            is_ours = is_below(name, "bloscpack") and not guest(name.removeprefix("bloscpack."))
            is_always_there = is_ours or name.split(".")[0] in ALWAYS_THERE
            if is_always_there and not is_below(name, *IMPORTED_ON_USE):
                yield f"line {node.lineno}: {name} belongs at the top"


def asks_for_class_of_storage(module: str, tree: ast.Module) -> Iterator[str]:
    """Elsewhere, a reader asks what a source can do; then a new storage can do it as well."""
    for node in ast.walk(tree) if not is_below(module, "storage") else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
            is_asked = node.func.id in ("isinstance", "issubclass") and names & SOURCES
            if is_asked or node.func.id == "is_remote":
                yield f"line {node.lineno}: use a member of ByteSource (storage/protocol.py)"


Rule = Callable[[str, ast.Module], Iterator[str]]
# Each rule, with a module and code in it that breaks the rule.
PLANTED: list[tuple[Rule, str, str]] = [
    (imports_upward, "format.header", "from ..array.array import Array"),
    (imports_upward, "filetypes.convert", "from ..vrs.verify import verify_file"),
    (imports_upward, "vrs.verify", "from ..gulp.verify import verify"),
    (imports_upward, "vrs.verify", "from ..storage.file import open_source"),
    (imports_upward, "array.parts", "from ..cli.console.status import FAILED"),
    (imports_upward, "novel.module", "import json"),
    (imports_foreign_library, "array.layout", "import torch"),
    (imports_foreign_library, "frames.sampler", "from concurrent.futures import Executor"),
    (is_impure, "format.header", "import os"),
    (is_impure, "array.selection", "from pathlib import Path"),
    (is_impure, "array.selection", "from .array import Array"),
    (imports_inside_functions, "array.array", "def f():\n with importing: import zlib"),
    (imports_inside_functions, "array.array", "def f():\n import tempfile"),
    (asks_for_class_of_storage, "array.array", "isinstance(x, MemorySource)"),
]


@pytest.mark.parametrize("rule", dict.fromkeys(rule for rule, _, _ in PLANTED))
def test_every_module_keeps(rule: Rule) -> None:
    wrong = [f"{module}: {each}" for module in MODULES for each in rule(module, parsed(module))]
    assert not wrong, "\n".join(sorted(wrong))


@pytest.mark.parametrize(("rule", "module", "code"), PLANTED)
def test_a_planted_fault_is_found(rule: Rule, module: str, code: str) -> None:
    assert list(rule(module, ast.parse(code)))


def test_no_circle_of_modules_or_of_folders_of_a_room() -> None:
    modules = {each: {name for name, _ in own_imports(each, parsed(each))} for each in MODULES}
    folders = defaultdict[str, set[str]](set)
    for module, names in modules.items():
        for name in names:
            here, there = module.split(".")[:-1][:2], name.split(".")[:-1][:2]
            if len(here) == len(there) == 2 and here[0] == there[0] and here != there:
                folders[".".join(here)].add(".".join(there))
    TopologicalSorter(modules).prepare()  # raises CycleError with the circle
    TopologicalSorter(folders).prepare()
