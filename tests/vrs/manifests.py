"""Manifests of the VRS files in ``vectors/vrs``, as Python values."""

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ReferenceFolder

FOLDER = ReferenceFolder("vrs")


class Digest:
    """Digest that compares equal to the value it was computed from."""

    def __init__(self, sha256: str) -> None:
        self.sha256 = sha256

    def __eq__(self, other: object) -> bool:
        return hashlib.sha256(json.dumps(other).encode()).hexdigest() == self.sha256

    __hash__ = None  # type: ignore[assignment]


@functools.cache
def listed() -> tuple[str, ...]:
    """Return the names of the files without ".vrs"; empty if the vectors are absent."""
    files = (*FOLDER.glob("*.vrs"), *FOLDER.glob("upstream/*.vrs"))
    return tuple(sorted(str(file.relative_to(FOLDER.path).with_suffix("")) for file in files))


def each_vector() -> pytest.MarkDecorator:
    """Return the mark that runs a test for each file, with its name as `vector`."""
    if not listed():
        skip = pytest.mark.skip(reason=FOLDER.missing)
        return pytest.mark.parametrize("vector", [pytest.param("", marks=skip)])
    return pytest.mark.parametrize("vector", listed())


def path(name: str) -> Path:
    """Return the path of a file."""
    return FOLDER / f"{name}.vrs"


@functools.cache
def load(name: str) -> dict[str, Any]:
    """Return the manifest of a file, with values as stored; see `value`."""
    manifest: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return manifest


def value(stored: Any, piece_type: str) -> Any:
    """Return the value of a piece as a reader returns it.

    Points are tuples, matrices tuples of tuples, a char is bytes of length 1. Bytes of a string
    that are not UTF-8 are surrogate escapes. Of a long value the manifest has only the hash: a
    `Digest`.
    """
    if isinstance(stored, dict) and "$sha256_of_json" in stored:
        return Digest(stored["$sha256_of_json"])
    kind, _, element = piece_type.removeprefix("DataPiece").rstrip(">").partition("<")
    if kind in ("Array", "Vector"):
        return [_element(item, element) for item in stored]
    if kind == "StringMap":
        return {key: _element(item, element) for key, item in stored.items()}
    return _element(stored, element or "string")


def _element(stored: Any, element: str) -> Any:
    if isinstance(stored, list):
        return tuple(_element(item, element) for item in stored)
    if isinstance(stored, dict) and "$f" in stored:
        return float(stored["$f"])
    if isinstance(stored, dict):
        data = bytes.fromhex(stored["$hex"])
        return data if element == "char" else data.decode("utf-8", "surrogateescape")
    return stored


def metadata(block: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a metadata block by label.

    If a label has several types, the key is ``label<type>`` with pyvrs's name of the type. A piece
    without a value is left out.
    """
    kinds = {"Value": "", "Array": "_array", "Vector": "_vector", "StringMap": "_string_map"}
    found: dict[tuple[str, str], Any] = {}
    for label, piece_type, stored in block["values"]:
        if stored is None:
            continue
        kind, _, element = piece_type.removeprefix("DataPiece").rstrip(">").partition("<")
        key = "string" if kind == "String" else element.removesuffix("_t") + kinds[kind]
        found[label, key] = value(stored, piece_type)
    labels = [label for label, _ in found]
    return {
        label if labels.count(label) == 1 else f"{label}<{key}>": item
        for (label, key), item in found.items()
    }
