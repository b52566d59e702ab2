"""The architecture: which module may import what (the table is in docs/design.md).

A module imports lower layers, its own folder and the libraries named for it. Every import of every
module is parsed, so that a violation fails here and not in a review.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import PACKAGE

# Layer by module, or by folder for what lies in it.
LAYERS = {
    "attrs": 0,
    "exceptions": 0,
    "wire": 0,
    "version": 0,
    "_ext": 1,
    "libraries": 0,
    "notice": 0,
    "nbytes": 0,
    "scratch": 0,
    "filekind": 1,
    "textlist": 0,
    "publicname": 0,
    "opening": 1,
    "threads": 1,
    "processes": 1,
    "checksum": 1,
    "codec": 1,
    "zstd": 1,
    "container.format": 2,
    "container.journal": 2,
    "container.metadata": 2,
    "container.trailer": 2,
    "storage": 3,
    "storage.client": 3,
    "storage.multipart": 3,
    "storage.remoteobject": 3,
    "storage.transport": 3,
    "storage.trouble": 3,
    "container.identity": 4,
    "container": 4,
    "dtype": 5,
    "selection": 5,
    "grid": 5,
    "ndarray": 5,
    "arraylike": 5,
    "rowappender": 5,
    "writer": 5,
    "gather": 5,
    "rows": 5,
    "fields": 5,
    "loss": 5,
    "display": 5,
    "array": 5,
    "parts": 5,
    "partsjob": 5,
    "loading": 5,
    "report": 5,
    "repair": 5,
    "verification": 5,
    "recovery": 5,
    "fetch": 5,
    "image": 5,
    "video": 5,
    "many": 6,
    "frames": 6,
    "frames.__init__": 8,
    "frames.cluster": 8,
    "frames.protocol": 5,
    "frames.sampler": 5,
    "gulp": 6,
    "benzina": 6,
    "vrs": 6,
    "detect": 7,
    "clipwriter": 7,
    "datasetwriter": 7,
    "foldersource": 7,
    "picturewriter": 7,
    "checking": 7,
    "convert": 7,
    "recordstore": 7,
    "args": 7,
    "append": 7,
    "abstract_io": 7,
    "defaults": 7,
    "file_io": 7,
    "numpy_io": 7,
    "original": 7,
    "packing": 7,
    "integrations": 8,
    "integrations.dask": 8,
    "integrations.torch": 8,
    "integrations.xarray": 8,
    "integrations.zarr": 8,
    "saving": 8,
    "cli": 9,
    "__init__": 10,
    "__main__": 10,
}
PURE = {
    "filekind",
    "benzina.affine",
    "benzina.av1sequence",
    "benzina.bitreader",
    "benzina.bmff",
    "benzina.boxes",
    "benzina.codecconfig",
    "benzina.colour",
    "benzina.filename",
    "benzina.format",
    "benzina.movie",
    "benzina.moviepacking",
    "benzina.sampleindex",
    "benzina.samplelayout",
    "benzina.samplepacking",
    "benzina.samplestream",
    "benzina.sequence",
    "benzina.splits",
    "benzina.transforms",
    "container.format",
    "container.journal",
    "container.metadata",
    "container.trailer",
    "frames.format",
    "gulp.errors",
    "gulp.format",
    "gulp.index",
    "vrs.audio",
    "vrs.conventions",
    "vrs.description",
    "vrs.format",
    "vrs.index",
    "vrs.indexrecord",
    "vrs.jxl",
    "vrs.layout",
    "vrs.normalization",
    "vrs.payload",
    "vrs.pieces",
    "vrs.pixels",
    "vrs.recordformat",
    "vrs.schema",
    "vrs.standard",
    "vrs.typenames",
    "vrs.values",
    "vrs.wav",
    "selection",
    "grid",
}
IMPURE_LIBRARIES = {"os", "io", "pathlib", "threading", "logging"}
# What a layer may import of its own number, beyond its own folder.
SAME_LAYER = {
    "frames.cluster": {"integrations.dask"},
    "frames.protocol": {"fetch"},
    "exceptions": {"wire"},
    "notice": {"exceptions"},
    "wire": {"exceptions"},
    "processes": {"threads"},
    "checksum": {"_ext"},
    "codec": {"_ext"},
    "ndarray": {"dtype"},
    "arraylike": {"ndarray"},
    "rowappender": {"arraylike", "dtype", "ndarray"},
    "writer": {"ndarray", "rowappender"},
    "grid": {"selection"},
    "gather": {"dtype", "selection", "grid", "ndarray"},
    "rows": {"ndarray"},
    "fields": {"dtype", "gather", "ndarray", "selection"},
    "loss": {"dtype", "selection", "grid", "ndarray", "gather"},
    "display": {"dtype"},
    "loading": {"array", "ndarray"},
    "array": {
        "display",
        "dtype",
        "fields",
        "selection",
        "ndarray",
        "gather",
        "loss",
        "rows",
        "rowappender",
    },
    "parts": {"ndarray", "partsjob"},
    "partsjob": {"arraylike", "dtype", "ndarray"},
    "report": {"ndarray"},
    "repair": {"report"},
    "verification": {"ndarray", "report", "repair"},
    "recovery": {"ndarray", "report"},
    "packing": {"args"},
    "append": {"args", "packing"},
    "abstract_io": {"args", "file_io", "packing"},
    "defaults": {"args"},
    "file_io": {"original"},
    "numpy_io": {"args", "file_io", "original", "packing"},
    "original": {"args", "packing"},
    "checking": {"detect"},
    "convert": {
        "clipwriter",
        "datasetwriter",
        "detect",
        "foldersource",
        "picturewriter",
        "recordstore",
    },
    "datasetwriter": {"clipwriter", "foldersource"},
    "picturewriter": {"clipwriter"},
    "saving": {"integrations", "integrations.dask"},
}
# Libraries beside the standard one.
LIBRARIES = {
    "checksum": {"xxhash", "zlib_ng"},
    "container.format": {"xxhash"},
    "container.trailer": {"xxhash"},
    "container": {"xxhash"},
    "storage": {"xxhash"},
    "storage.client": {"fsspec"},
    "storage.multipart": {"fsspec"},
    "storage.remoteobject": {"aiohttp"},
    "storage.transport": {"fsspec"},
    "storage.trouble": {"aiohttp"},
    "container.identity": {"xxhash"},
    "repair": {"xxhash"},
    "recovery": {"xxhash"},
    "dtype": {"numpy"},
    "ndarray": {"numpy"},
    "arraylike": {"numpy"},
    "selection": {"numpy"},
    "grid": {"numpy"},
    "gather": {"numpy"},
    "rows": {"numpy"},
    "fields": {"numpy"},
    "loss": {"numpy"},
    "rowappender": {"numpy"},
    "writer": {"numpy"},
    "array": {"numpy"},
    "many": {"numpy"},
    "partsjob": {"numpy", "xxhash"},
    "image": {"numpy"},
    "libraries": {"simplejpeg", "PIL", "av"},
    "packing": {"numpy"},
    "original": {"numpy"},
    "append": {"numpy"},
    "video": {"numpy"},
    "cli": {"numpy"},
    "clipwriter": {"numpy"},
    "datasetwriter": {"numpy"},
    "foldersource": {"numpy"},
    "picturewriter": {"numpy"},
    "recordstore": {"numpy", "xxhash"},
    "frames": {"numpy", "xxhash"},
    "frames.sampler": {"numpy", "xxhash"},
    "frames.protocol": {"numpy"},
    "gulp": {"numpy", "xxhash", "tqdm"},
    "benzina": {"numpy", "torch"},
    "vrs": {"numpy", "xxhash", "pillow_jxl"},
    "zstd": {"compression", "zstandard"},
    "integrations.dask": {"numpy", "dask"},
    "integrations": {"numpy"},
    "integrations.torch": {"numpy", "torch"},
    "integrations.xarray": {"xarray"},
    "integrations.zarr": {"numpy", "zarr"},
}
# What may be imported inside a function: slow to load, and most programs never need it.
IMPORTED_ON_USE = {
    "checking": {
        ".benzina.checking",
        ".frames.recovery",
        ".frames.verification",
        "tempfile",
    },
    "convert": {
        ".clipwriter",
        ".datasetwriter",
        ".foldersource",
        ".frames.reader",
        ".picturewriter",
        ".recordstore",
        ".vrs.recordfile",
        ".vrs.recording",
        "shutil",
    },
    "detect": {
        ".benzina.content",
        ".benzina.dataset",
        ".frames.many",
        ".frames.reader",
        ".gulp.source",
        ".vrs.framesource",
    },
    "display": {"html"},
    "frames.cluster": {"..integrations.dask"},
    "checksum": {"hashlib"},
    "processes": {
        "multiprocessing",
        "multiprocessing.connection",
        "multiprocessing.reduction",
        "traceback",
    },
    "saving": {".integrations.dask", ".integrations.labels"},
    "storage.listing": {"."},
    "storage.remoteparts": {".joinedupload", ".partobjects"},
    "storage.remote": {".", ".trouble"},
    "storage.sink": {".upload", "tempfile"},
    "storage.upload": {".multipart", ".transport"},
    "threads": {"asyncio"},
    "libraries": {"simplejpeg", "PIL", "av"},
    "benzina.__init__": {".torchloader"},
    "benzina.loader": {".ongpu", "torch"},
    "vrs.imagecodec": {"pillow_jxl"},
    "gulp.ingest": {"tqdm"},
    # Every command would load them.
    "cli.bzna_extract": {"..benzina.extraction"},
    "cli.bzna_pack": {"..benzina.packing"},
    "cli.bzna_verify": {"..benzina.checking"},
    "cli.datasets": {"..benzina.dataset"},
    "cli.export": {"..integrations.kerchunk"},
    "cli.gulp": {"..gulp.sanity"},
    "cli.gulpingest": {"..gulp", "..gulp.ids", "..gulp.ingest", "random"},
    "cli.recordings": {"..vrs.recording"},
    "cli.vrs_check": {"..vrs.checking"},
    "cli.vrs_copy": {"..vrs.copying", "..vrs.merging"},
    "cli.vrs_extract": {"..vrs.extraction"},
    "cli.vrs_fixindex": {"..vrs.repair"},
    "cli.vrs_info": {"..vrs.documents"},
    "cli.vrs_list": {"..vrs.documents"},
    "cli.vrs_print": {"..vrs.documents"},
}
# Modules that may import by name, when something is used: the optional packages of a dtype, the
# kinds of files that most programs have none of.
IMPORTS_ON_USE = {"dtype", "__init__"}


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


MODULES = {module_name(path): ast.parse(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")}
each_module = pytest.mark.parametrize("module", sorted(MODULES))


def unit(module: str) -> str:
    """Return the entry of `LAYERS` for a module: itself, or its folder."""
    if module in LAYERS:
        return module
    return module.split(".", maxsplit=1)[0]


def is_module(name: str) -> bool:
    return name in MODULES or f"{name}.__init__" in MODULES


def imports(module: str) -> Iterator[tuple[str, int]]:
    """Yield ("bloscpack.x" or library, line) for every import statement, wherever it stands."""
    folder = module.split(".")[:-1]
    for node in ast.walk(MODULES[module]):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module.split(".") if node.module else []
            if node.level:
                base = ["bloscpack", *folder[: len(folder) - node.level + 1], *base]
            for alias in node.names:
                inner = ".".join([*base[1:], alias.name])
                found = inner if base[0] == "bloscpack" and is_module(inner) else None
                yield f"bloscpack.{found}" if found else ".".join(base), node.lineno


def imported_names(node: ast.Import | ast.ImportFrom) -> set[str]:
    if isinstance(node, ast.ImportFrom):
        return {"." * node.level + (node.module or "")}
    return {alias.name for alias in node.names}


def own_imports(module: str) -> Iterator[tuple[str, int]]:
    for name, line in imports(module):
        if name == "bloscpack":
            yield "__init__", line
        elif name.startswith("bloscpack."):
            yield name.removeprefix("bloscpack."), line


@each_module
def test_every_module_has_a_layer(module: str) -> None:
    assert unit(module) in LAYERS, f"give {module} a place in LAYERS and in the design"


@each_module
def test_imports_go_down(module: str) -> None:
    here, folder = unit(module), module.split(".")[0]
    wrong = []
    for name, line in own_imports(module):
        there = unit(name)
        same_folder = "." in module and folder == name.split(".")[0]
        # A pure module may use its pure siblings, not the rest of its folder.
        if module in PURE and "." in module:
            same_folder = same_folder and name in PURE
        allowed = same_folder or there in SAME_LAYER.get(here, ())
        if not allowed and LAYERS[there] >= LAYERS[here]:
            wrong.append(f"line {line}: {name} is in layer {LAYERS[there]}")
    assert not wrong, f"{module} (layer {LAYERS[here]}): {wrong}"


@each_module
def test_only_named_libraries(module: str) -> None:
    named = LIBRARIES.get(unit(module), set())
    tops = {name.split(".")[0]: line for name, line in imports(module)}
    wrong = {
        top: line
        for top, line in tops.items()
        if top != "bloscpack" and top not in sys.stdlib_module_names and top not in named
    }
    assert not wrong, f"{module} imports {wrong}"


@pytest.mark.parametrize("module", sorted(PURE))
def test_pure_modules_touch_nothing_outside(module: str) -> None:
    found = {name.split(".")[0] for name, _ in imports(module)}
    assert not found & IMPURE_LIBRARIES


@each_module
def test_threads_and_processes_are_started_in_one_place_each(module: str) -> None:
    starters = {"concurrent", "multiprocessing", "asyncio", "_thread"}
    found = {name.split(".")[0] for name, _ in imports(module)} & starters
    # The clients of fsspec are coroutines on a loop of its own.
    clients = {"client", "multipart", "joinedupload", "transport", "remoteobject", "trouble"}
    assert (
        not found
        or module in ("threads", "processes")
        or module in {f"storage.{name}" for name in clients}
    )


@each_module
def test_no_import_inside_functions(module: str) -> None:
    allowed = IMPORTED_ON_USE.get(module, set())
    wrong = [
        inner.lineno
        for node in ast.walk(MODULES[module])
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
        if isinstance(inner, ast.ImportFrom | ast.Import) and not imported_names(inner) <= allowed
    ]
    assert not wrong, f"{module} imports inside a function, lines {wrong}"


@each_module
def test_import_by_name_only_where_allowed(module: str) -> None:
    tree = MODULES[module]
    by_name = any(name.split(".")[0] == "importlib" for name, _ in imports(module)) or any(
        isinstance(node, ast.Name) and node.id == "__import__" for node in ast.walk(tree)
    )
    parts = {name for name, _ in imports(module) if name.startswith("importlib")}
    # These look for a package without importing it.
    is_harmless = parts <= {"importlib.metadata", "importlib.util"}
    assert not by_name or module in IMPORTS_ON_USE or is_harmless


@each_module
def test_no_pickle_and_no_eval(module: str) -> None:
    found = {name.split(".")[0] for name, _ in imports(module)}
    # One format is a pickle; its reader builds two types and refuses the rest.
    allowed = {"pickle"} if module == "gulp.pickled" else set()
    assert not (found - allowed) & {"pickle", "marshal", "shelve", "dill"}
    called = {
        node.func.id
        for node in ast.walk(MODULES[module])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & {"eval", "exec", "compile"}


@pytest.mark.parametrize("module", [name for name in MODULES if name.endswith("__init__")])
def test_init_files_only_reexport(module: str) -> None:
    allowed = ast.Import | ast.ImportFrom | ast.Assign | ast.Expr
    for node in MODULES[module].body:
        # The package imports some of its folders when they are named, and tells the type checker;
        # so does a folder with what needs torch.
        is_lazy = module in ("__init__", "benzina.__init__")
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


def test_no_cycles() -> None:
    graph = {module: {name for name, _ in own_imports(module)} for module in MODULES}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, f"cycle: {' -> '.join([*path, module])}"
        if module not in done:
            for name in graph.get(module, ()):
                visit(name, (*path, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def test_no_catch_all_modules() -> None:
    banned = {"util", "utils", "helpers", "common", "misc", "base"}
    names = set(MODULES) - {"gulp.utils", "vrs.pyvrs.utils"}  # names of GulpIO2 and pyvrs
    assert not banned & {part for module in names for part in module.split(".")}


def test_every_kernel_has_a_stub() -> None:
    kernels = {path.stem for path in (PACKAGE.parent / "ext").glob("*.pyx")}
    assert kernels == {path.stem for path in (PACKAGE / "_ext").glob("*.pyi")}
