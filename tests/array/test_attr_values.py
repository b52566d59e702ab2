"""Values of attrs and metadata: numpy's are stored as plain JSON, others are refused by name."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import bloscpack as bp

ARRAY = np.arange(6.0).reshape(2, 3)
GIVEN = {
    "scale": np.float32(0.5), "n": np.int64(3), "ok": np.True_, "text": np.str_("x"),
    "offset": np.array([1, 2], ">i4"), "nested": {"k": [np.arange(4).reshape(2, 2)]},
    "objects": np.array([{"a": np.uint8(1)}, None], object), "names": np.array(["a", "bc"]),
    "pair": (1, np.float64(2.5)), "proxy": MappingProxyType({"z": np.array(7)}),
}  # fmt: skip
STORED = {
    "scale": 0.5, "n": 3, "ok": True, "text": "x", "offset": [1, 2],
    "nested": {"k": [[[0, 1], [2, 3]]]}, "objects": [{"a": 1}, None], "names": ["a", "bc"],
    "pair": [1, 2.5], "proxy": {"z": 7},
}  # fmt: skip


def saved(path: Path, attrs: Any) -> Any:
    bp.save(path, ARRAY, attrs=attrs)
    with bp.open(path) as array:
        return dict(array.attrs)


def archived(path: Path, attrs: Any) -> Any:
    bp.savez(path, a=ARRAY, attrs=attrs)
    with bp.open(path) as archive:
        return dict(archive.attrs)


def written(path: Path, attrs: Any) -> Any:
    with bp.Writer(path, dtype="f8", attrs=attrs) as writer:
        writer.append([1.0])
    with bp.open(path) as array:
        return dict(array.attrs)


def assigned(path: Path, attrs: Any) -> Any:
    with bp.Writer(path, dtype="f8") as writer:
        writer.append([1.0])
        writer.attrs.update(attrs)
    with bp.open(path) as array:
        return dict(array.attrs)


def updated(path: Path, attrs: Any) -> Any:
    bp.save(path, ARRAY)
    with bp.open(path, "a") as array:
        array.update_attrs(attrs)
    with bp.open(path) as array:
        return dict(array.attrs)


def created(path: Path, attrs: Any) -> Any:
    bp.frames.create(path, attrs=attrs).close()
    with bp.frames.open(path) as store:
        return dict(store.attrs)


def described(path: Path, attrs: Any) -> Any:
    with bp.frames.create(path) as store:
        store.append("a", np.zeros((1, 2, 2), "u1"), attrs)
    with bp.frames.open(path) as store:
        return store["a"].meta


STORING = [saved, archived, written, assigned, updated, created, described]


@pytest.mark.parametrize("store", STORING)
def test_numpy_values_are_stored_as_json(store: Callable[..., Any], tmp_path: Path) -> None:
    found = store(tmp_path / "a.blp", GIVEN)
    assert found == STORED
    assert json.loads(json.dumps(found)) == STORED


@pytest.mark.parametrize("store", STORING)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.datetime64("2026-01-02", "ns"), "datetime64 .*datetime_as_string"),
        (np.array([1], "m8[s]"), "ndarray .*as text"),
        (datetime(2026, 1, 2), "datetime .*store it as text"),
        (b"x", "bytes .*decode it to text"),
        ({1}, "set .*store it as a list"),
        (1j, "complex"),
        (np.longdouble(1), "longdouble"),
        (object(), "object"),
        (np.ma.masked, "MaskedConstant"),
        (np.ma.array([1, 2], mask=[False, True]), "MaskedArray"),
    ],
)
def test_the_place_of_another_value_is_named(
    store: Callable[..., Any], value: Any, message: str, tmp_path: Path
) -> None:
    what = "meta" if store is described else "attrs"
    place = rf"{what}\['calibration'\]\['k'\]\[1\]"
    with pytest.raises(TypeError, match=f"^{place} is not a JSON value: {message}"):
        store(tmp_path / "a.blp", {"calibration": {"k": [0, value]}})


def test_keys(tmp_path: Path) -> None:
    assert saved(tmp_path / "a.blp", {"a": {np.int64(1): np.int8(2)}}) == {"a": {"1": 2}}
    with pytest.raises(TypeError, match=r"attrs\['a'\] has the key \(1, 2\), a tuple"):
        saved(tmp_path / "a.blp", {"a": {(1, 2): 3}})


@pytest.mark.parametrize("keys", [(1, "1"), (True, "true"), (None, "null"), (np.int64(3), "3")])
def test_keys_that_are_equal_as_text(keys: Any, tmp_path: Path) -> None:
    nested = {"a": {"b": dict(zip(keys, (1, 2), strict=True))}}
    with pytest.raises(TypeError, match=r"attrs\['a'\]\['b'\] has keys that are equal as text"):
        saved(tmp_path / "a.blp", nested)


def test_a_value_that_contains_itself(tmp_path: Path) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="attrs: circular, or nested too deeply"):
        saved(tmp_path / "a.blp", {"a": endless})


def test_a_refused_update_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    bp.save(path, ARRAY, attrs={"a": 1})
    with bp.open(path, "a") as array:
        with pytest.raises(TypeError, match=r"attrs\['b'\]"):
            array.update_attrs({"a": 2, "b": {1}})
        assert dict(array.attrs) == {"a": 1}
