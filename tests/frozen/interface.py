"""Describes public modules: their names, signatures, attributes and the bases of their classes."""

import ast
import enum
import importlib
import inspect
import re
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, ModuleType, NoneType, UnionType
from typing import Any, ForwardRef, Literal, Union, get_args, get_origin

import numpy as np

import bloscpack

from ..test_layers import FILE_TYPES

PACKAGE = str(Path(bloscpack.__file__).parent)

# Public modules, with the library that each of them needs.
MODULES = {
    "bloscpack": None,
    "bloscpack.abstract_io": None,
    "bloscpack.append": None,
    "bloscpack.args": None,
    "bloscpack.benzina.transforms": None,
    "bloscpack.cli.main": None,
    "bloscpack.defaults": None,
    "bloscpack.exceptions": None,
    "bloscpack.file_io": None,
    "bloscpack.frames": None,
    "bloscpack.frames.listing": None,
    "bloscpack.frames.sampler": None,
    "bloscpack.gulp.adapters": None,
    "bloscpack.gulp.fileio": None,
    "bloscpack.gulp.sanity_utils": None,
    "bloscpack.gulp.utils": None,
    "bloscpack.integrations.batches": None,
    "bloscpack.integrations.dask": "dask",
    "bloscpack.integrations.kerchunk": None,
    "bloscpack.integrations.numcodecs": "numcodecs",
    "bloscpack.integrations.torch": "torch",
    "bloscpack.integrations.xarray": "xarray",
    "bloscpack.integrations.zarr": "zarr",
    "bloscpack.numpy_io": None,
    "bloscpack.vrs.pyvrs": None,
    "bloscpack.vrs.pyvrs.filter": None,
    "bloscpack.vrs.pyvrs.record": None,
    "bloscpack.vrs.pyvrs.slice": None,
    "bloscpack.vrs.pyvrs.utils": None,
    **{f"bloscpack.{folder}": None for folder in FILE_TYPES},
}
MODULES = dict(sorted(MODULES.items()))
# Of this module only the entry point of the command is public.
FEW_NAMES = {"bloscpack.cli.main": ["main"]}
# Names that exist, or are listed, only where a library is installed.
OPTIONAL_NAMES = {"bloscpack.as_zarr": "zarr", "bloscpack.benzina.DataLoader": "torch"}

Description = dict[str, Any]


def has(library: str | None) -> bool:
    """Return whether a library is installed."""
    return library is None or find_spec(library) is not None


def public_names(name: str) -> list[str]:
    """Return the names in ``__all__``, or those that a module without it defines."""
    module = importlib.import_module(name)
    names = {*module.__all__} if hasattr(module, "__all__") else _defined(module)
    for each in (*MODULES, *OPTIONAL_NAMES):
        module_name, _, last = each.rpartition(".")
        names |= {last} if module_name == name else set()
    if name in FEW_NAMES:
        names = {*FEW_NAMES[name]}
    return sorted(each for each in names if is_available(name, each))


def is_available(module: str, name: str) -> bool:
    """Return whether the library that a name depends on is installed."""
    return has(OPTIONAL_NAMES.get(f"{module}.{name}"))


def describe(module: str, name: str) -> Any:
    """Return what a public name is: a signature, the attributes of a class, a value."""
    if f"{module}.{name}" in MODULES:
        return "module"
    value = getattr(importlib.import_module(module), name, None)
    if value is None:
        return "missing"
    if isinstance(value, ModuleType):
        return "module"
    if inspect.isclass(value) and value.__module__ != "builtins":
        return _describe_class(value)
    if inspect.isroutine(value):
        return _signature(value)
    # An alias for annotations, or a constant.
    return _annotation(value) if get_origin(value) else plain(repr(value))


def describe_module(name: str) -> Description:
    """Return each public name of a module and what it is."""
    return {each: describe(name, each) for each in public_names(name) if each != "__version__"}


def _defined(module: ModuleType) -> set[str]:
    tree = ast.parse(inspect.getsource(module))
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        targets = node.targets if isinstance(node, ast.Assign) else []
        names |= {each.id for each in targets if isinstance(each, ast.Name) and each.id.isupper()}
    return {each for each in names if each[0] != "_"}


def _is_ours(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).partition(".")[0] == "bloscpack"


@cache
def _describe_class(kind: type[Any]) -> Description:
    described: Description = {"bases": _bases(kind)}
    if issubclass(kind, enum.Enum):
        described["members"] = {
            name: plain(repr(each.value)) for name, each in kind.__members__.items()
        }
    else:
        call = _signature(kind)
        described |= {"call": call} if call else {}
    attributes: dict[str, str] = {}
    for base in reversed([each for each in kind.__mro__ if _is_ours(each)]):
        for name in sorted(_instance_attributes(base)):
            attributes.setdefault(name, "attribute")
        for name, value in vars(base).items():
            if _is_public(name, value) and type(value) is not kind:
                attributes[name] = _describe_attribute(value)
    return described | {"attributes": dict(sorted(attributes.items()))}


def _bases(kind: type[Any]) -> list[str]:
    """Return the classes that `except` and `isinstance` recognise, without private ones."""
    found = [each for each in kind.__mro__[1:] if each is not object and each.__name__[0] != "_"]
    if not issubclass(kind, BaseException):
        # Foreign classes differ between versions of their library below the first of them.
        found = [each for each in kind.__mro__[1:] if each in _direct_bases(kind)]
    return [each.__name__ for each in found]


def _direct_bases(kind: type[Any]) -> set[type[Any]]:
    """Return the foreign classes that our classes derive from."""
    ours = [each for each in kind.__mro__ if _is_ours(each)]
    return {base for each in ours for base in each.__bases__ if not _is_ours(base)} - {object}


def _is_public(name: str, value: Any) -> bool:
    if not name.startswith("_"):
        return True
    # Special methods that are written out; others come with dataclasses and differ by version.
    function = getattr(value, "__func__", value)
    is_special = name.startswith("__") and name.endswith("__") and name != "__init__"
    return (
        is_special
        and isinstance(function, FunctionType)
        and function.__code__.co_filename.startswith(PACKAGE)
    )


def _describe_attribute(value: Any) -> str:
    if isinstance(value, staticmethod | classmethod):
        return f"{type(value).__name__} {_signature(value.__func__)}"
    if isinstance(value, property):
        return "property, can be set" if value.fset else "property"
    if inspect.isfunction(value):
        return _signature(value)
    if inspect.isclass(value):
        return f"class {value.__name__}"
    return "attribute"


def _instance_attributes(kind: type[Any]) -> set[str]:
    """Return public names that are annotated or assigned to `self`."""
    names = {*inspect.get_annotations(kind)}
    tree = _classes(sys.modules[kind.__module__].__file__ or "").get(kind.__name__, ast.Pass())
    names |= {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    return {name for name in names if name[0] != "_"}


@cache
def _classes(file: str) -> dict[str, ast.AST]:
    tree = ast.parse(Path(file).read_text("utf-8"))
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def _signature(function: Any) -> str:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ""  # that of a class in C
    parts: list[str] = []
    kinds = [each.kind for each in signature.parameters.values()]
    for position, each in enumerate(signature.parameters.values()):
        if each.kind is each.KEYWORD_ONLY and not {each.VAR_POSITIONAL, each.KEYWORD_ONLY} & {
            *kinds[:position]
        }:
            parts.append("*")
        stars = "*" if each.kind is each.VAR_POSITIONAL else ""
        stars = "**" if each.kind is each.VAR_KEYWORD else stars
        text = stars + each.name
        if each.annotation is not each.empty:
            text += f": {_annotation(each.annotation)}"
        if each.default is not each.empty:
            text += f" = {plain(repr(each.default))}"
        parts.append(text)
        is_last_positional = each.kind is each.POSITIONAL_ONLY and (
            each.POSITIONAL_ONLY not in kinds[position + 1 :]
        )
        if is_last_positional:
            parts.append("/")
    returned = signature.return_annotation
    arrow = "" if returned is signature.empty else f" -> {_annotation(returned)}"
    return f"({', '.join(parts)}){arrow}"


def _annotation(annotation: Any) -> str:
    """Return an annotation with bare names, in the same words in every release of Python."""
    if isinstance(annotation, str):
        return plain(annotation.replace("'", ""))
    if annotation is Ellipsis or annotation in (None, NoneType):
        return "..." if annotation is Ellipsis else "None"
    if isinstance(annotation, list):  # the arguments of a callable
        return f"[{', '.join(map(_annotation, annotation))}]"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return " | ".join(map(_annotation, arguments))
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    if origin is np.ndarray and arguments[0] in (Any, tuple[Any, ...]):
        # What `NDArray` stands for in earlier releases of NumPy; it has a name of its own since.
        return f"NDArray{_annotation(arguments[1]).removeprefix('dtype')}"
    if origin is not None:
        name = getattr(origin, "__name__", str(origin))
        return f"{plain(name)}[{', '.join(map(_annotation, arguments))}]"
    if isinstance(annotation, ForwardRef):
        return plain(annotation.__forward_arg__)
    return plain(getattr(annotation, "__name__", repr(annotation)))


def plain(text: str) -> str:
    """Return a text without addresses and the modules that names come from."""
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    text = re.sub(r"<function \w+>", "<function>", text)
    return re.sub(r"\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_]\w*)", _without_module, text)


def _without_module(found: re.Match[str]) -> str:
    # Members of enumerations keep the name of their class: `Compression.LZ4`.
    owner = found[0].rstrip(".").rpartition(".")[2]
    return f"{owner}." if owner[:1].isupper() else ""
