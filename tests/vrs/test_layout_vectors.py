"""Definitions of the vectors come back; values in the form of their manifests."""

import hashlib
import json
import math
from typing import Any

import pytest

from bloscpack.vrs.layout.datalayout import DataLayout

from .vectorfiles import NAMES, VectorFile

each_file = pytest.mark.parametrize("name", NAMES)


def as_manifest(value: Any) -> Any:
    """Return a value in the form of the manifests (see the README of the vectors)."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"$f": "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"}
    if isinstance(value, bytes):
        return {"$hex": value.hex()}
    if isinstance(value, str):
        data = value.encode("utf-8", "surrogateescape")
        try:
            return data.decode()
        except UnicodeDecodeError:
            return {"$hex": data.hex()}
    if isinstance(value, list | tuple):
        return [as_manifest(one) for one in value]
    if isinstance(value, dict):
        return {key: as_manifest(one) for key, one in value.items()}
    return value


def typed(value: Any) -> Any:
    """Return a value in which 1, 1.0 and True differ, and 0.0 and -0.0."""
    if isinstance(value, list):
        return [typed(one) for one in value]
    if isinstance(value, dict):
        return {key: typed(one) for key, one in value.items()}
    return type(value).__name__, repr(value)


def long_value(one: list[Any], expected: list[Any]) -> list[Any]:
    """Return `one` if the manifest has only its hash, else the entry of the manifest."""
    text = json.dumps(one[2], sort_keys=True)
    digest = {"$sha256_of_json": hashlib.sha256(text.encode()).hexdigest(), "$len": len(one[2])}
    return one if expected == [*one[:2], digest] else expected


@each_file
def test_definitions_come_back(name: str) -> None:
    for stream, tag, text in VectorFile(name).definitions():
        # One definition of the independent encoder has its keys in another order.
        if (name, stream) != ("enc_labels", "240-1"):
            assert DataLayout.from_json(text).to_json() == text, (stream, tag)


def test_keys_of_a_definition_in_another_order() -> None:
    ((_, _, text),) = VectorFile("enc_labels").definitions()
    written = DataLayout.from_json(text).to_json()
    assert DataLayout.from_json(written) == DataLayout.from_json(text)
    assert len(written) == len(text)
    assert '"tags":{"unit":"m/s","description":"d"},"required":true,"default":7' in written
