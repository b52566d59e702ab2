"""Manifests of the VRS files in ``vectors/vrs``, as Python values."""

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ReferenceFolder

FOLDER = ReferenceFolder("vrs")


@functools.cache
def listed() -> tuple[str, ...]:
    """Return the names of the files, without ".vrs"; empty if they are not installed."""
    files = (*FOLDER.glob("*.vrs"), *FOLDER.glob("upstream/*.vrs"))
    return tuple(sorted(str(file.relative_to(FOLDER.path).with_suffix("")) for file in files))


def each_vector() -> pytest.MarkDecorator:
    """Return a mark that runs a test for each file, with its name as `vector`."""
    if not listed():
        skip = pytest.mark.skip(reason=FOLDER.missing)
        return pytest.mark.parametrize("vector", [pytest.param("", marks=skip)])
    return pytest.mark.parametrize("vector", listed())


def path(name: str) -> Path:
    """Return the path of a file."""
    return FOLDER / f"{name}.vrs"


@functools.cache
def load(name: str) -> dict[str, Any]:
    """Return the manifest of a file; see `value` for the values in it."""
    manifest: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return manifest
