"""Public names: listed by `dir`, shown by `help`, and documented in the reference."""

import enum
import importlib
import importlib.util
import inspect
import pickle
import pydoc
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pytest

import bloscpack as bp

from .test_layers import FILE_TYPES

FOLDERS = ("bloscpack", "bloscpack.frames", *(f"bloscpack.{name}" for name in FILE_TYPES))
# Public modules, besides the folders themselves.
PUBLIC_MODULES = {
    *("abstract_io", "append", "args", "defaults", "exceptions", "file_io", "frames"),
    *("integrations", "numpy_io", *FILE_TYPES),
    *("listing", "sampler", "adapters", "fileio", "sanity_utils", "utils", "pyvrs", "transforms"),
}
# These classes have the names of pyvrs's own.
FOREIGN = "bloscpack.vrs.pyvrs"


def module_of(name: str) -> Any:
    return importlib.import_module(name)


def listed(name: str) -> list[str]:
    return [each for each in dir(module_of(name)) if not each.startswith("__")]


@pytest.mark.parametrize("folder", FOLDERS)
def test_dir_lists_public_names_and_no_inner_module(folder: str) -> None:
    names = listed(folder)
    module = module_of(folder)
    assert set(module.__all__) - {"__version__", "DataLoader"} <= set(names)
    inner = [
        name
        for name in names
        if name not in PUBLIC_MODULES
        and importlib.util.find_spec(f"{folder}.{name}")
        # `bp.parts` and `bp.open` are functions, even if modules have the same names.
        and inspect.ismodule(getattr(module, name))
    ]
    assert inner == []
    assert not {"Any", "TYPE_CHECKING", "importlib", "find_spec", "importing"} & set(names)


def test_dir_of_the_package_lists_the_kinds_of_files_before_they_are_loaded() -> None:
    code = (
        "import bloscpack, sys\n"
        "names = set(dir(bloscpack))\n"
        f"assert {{'frames', 'save', '__version__', *{sorted(FILE_TYPES)}}} <= names\n"
        "assert 'bloscpack.frames' not in sys.modules\n"
        "assert not {'container', 'codec', 'threads', 'wire', 'detect'} & names\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_dir_lists_as_zarr_where_zarr_is_installed() -> None:
    assert ("as_zarr" in dir(bp)) == (importlib.util.find_spec("zarr") is not None)


@pytest.mark.parametrize("folder", FOLDERS)
def test_functions_and_classes_bear_the_names_they_are_exported_by(folder: str) -> None:
    module = module_of(folder)
    for name in set(listed(folder)) - PUBLIC_MODULES - {"as_zarr", "DataLoader"}:
        value = getattr(module, name)
        if inspect.isfunction(value) or isinstance(value, type):
            assert value.__name__ == value.__qualname__ == name
            assert getattr(importlib.import_module(value.__module__), name) is value


def test_help_of_frames_open_shows_that_name() -> None:
    for name in ("open", "create"):
        function = getattr(bp.frames, name)
        text = pydoc.plain(pydoc.render_doc(function))
        assert f"function {name} in module bloscpack.frames" in text
        assert f"{name}_frames" not in text
        assert f"function {name} at" in repr(function)
        assert pickle.loads(pickle.dumps(function)) is function


def public_classes() -> Iterator[type[Any]]:
    for folder in FOLDERS:
        for name in set(listed(folder)) - PUBLIC_MODULES - {"as_zarr", "DataLoader"}:
            value = getattr(module_of(folder), name)
            is_ours = isinstance(value, type) and value.__module__.startswith("bloscpack.")
            if is_ours and not issubclass(value, enum.Enum | BaseException):
                yield value


def own_attributes(kind: type[Any]) -> set[str]:
    """Return public attributes, except those inherited from classes of other packages."""
    foreign = [base for base in kind.__mro__ if not base.__module__.startswith("bloscpack")]
    names = {name for base in kind.__mro__ for name in vars(base) if not name.startswith("_")}
    return {name for name in names if not any(name in vars(base) for base in foreign)}


def is_documented(kind: type[Any], name: str) -> bool:
    """Return whether an attribute has a docstring, its own or in that of a class."""
    value = inspect.getattr_static(kind, name)
    if isinstance(value, property | cached_property | classmethod) or callable(value):
        return bool(inspect.getdoc(value))
    for base in kind.__mro__:
        if base.__module__.startswith("bloscpack"):
            listed = re.search(rf"\b{name}\b", inspect.getdoc(base) or "")
            below = rf"^    {name}\b.*\n    \"\"\""
            if listed or re.search(below, inspect.getsource(base), re.MULTILINE):
                return True
    return False


def test_every_public_attribute_of_a_public_class_is_in_the_reference() -> None:
    """The reference is made from docstrings; pieces of a `Layout` are shown with their values."""
    pieces = (vrs.Value, vrs.String) if (vrs := getattr(bp, "vrs", None)) else ()
    missing = {
        f"{kind.__name__}.{name}"
        for kind in public_classes()
        if not kind.__module__.startswith(FOREIGN)
        for name in own_attributes(kind)
        if not is_documented(kind, name)
        and not isinstance(inspect.getattr_static(kind, name), pieces)
    }
    assert missing == set()
