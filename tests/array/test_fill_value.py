"""Masked arrays that are saved with a fill value."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp

MASK = [False, True, False]
GOOD: dict[str, tuple[Any, Any, Any]] = {
    "integers": (np.array([1, 2, 3], "i2"), -9, -9),
    "floats": (np.array([1, 2, 3], "f4"), 1e20, float(np.float32(1e20))),
    "NaN": (np.array([1.0, 2, 3]), np.nan, np.nan),
    "text": (np.array(["a", "b", "ccc"]), "", ""),
    "bytes": (np.array([b"a", b"b", b"ccc"]), b"--", "--"),
    "a byte order": (np.array([1, 2, 3], ">u4"), np.uint8(0), 0),
    "rows": (np.asfortranarray([[1, 2, 3], [4, 5, 6]]), 9, 9),
}


@pytest.mark.parametrize("case", GOOD)
def test_masked_items_have_the_fill_value(case: str, tmp_path: Path) -> None:
    items, fill, attr = GOOD[case]
    masked = np.ma.masked_array(items, np.broadcast_to(MASK, items.shape))
    before = masked.copy()
    bp.save(tmp_path / "a.blp", masked, fill_value=fill, attrs={"unit": "K"})
    with bp.open(tmp_path / "a.blp") as array:
        assert array.dtype == items.dtype
        assert np.array_equal(array[..., ::2], items[..., ::2])
        stored = np.full_like(array[..., 1], fill)
        assert np.array_equal(array[..., 1], stored, equal_nan=items.dtype.kind == "f")
        assert repr(array.attrs) == repr({"unit": "K", "_FillValue": attr})
    assert np.array_equal(masked.data, before.data)
    xr = pytest.importorskip("xarray")
    engine = pytest.importorskip("bloscpack.integrations.xarray").BloscpackBackend
    with xr.open_dataset(tmp_path / "a.blp", engine=engine) as found:
        assert np.array_equal(found["data"].isnull(), np.ma.getmaskarray(masked))
        assert (found["data"].values[..., ::2] == items[..., ::2]).all()


BAD: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "no value": (np.ma.masked_equal([1, 2], 2), {}, TypeError, "fill_value="),
    "no mask": (np.arange(3), {"fill_value": 1}, TypeError, "is for a masked array"),
    "an item": (
        np.ma.masked_equal([1, 2], 2),
        {"fill_value": 1},
        ValueError,
        "not masked is equal",
    ),
    "NaN among items": (
        np.ma.masked_array([np.nan, 2], [False, True]),
        {"fill_value": np.nan},
        ValueError,
        "not masked is equal",
    ),
    "another type": (
        np.ma.masked_equal(np.array([1, 2], "u1"), 2),
        {"fill_value": 300},
        ValueError,
        "300 is not a value of uint8",
    ),
    "a fraction": (np.ma.masked_equal([1, 2], 2), {"fill_value": 0.5}, ValueError, "not a value"),
    "long text": (
        np.ma.masked_array(["a", "b"], [False, True]),
        {"fill_value": "missing"},
        ValueError,
        "not a value",
    ),
    "beyond floats": (
        np.ma.masked_equal(np.array([1, 2], "f4"), 2),
        {"fill_value": 1e300},
        ValueError,
        "not a value",
    ),
    "an array": (np.ma.masked_equal([1, 2], 2), {"fill_value": [3, 3]}, ValueError, "not a value"),
    "times": (
        np.ma.masked_array(np.arange(2).astype("M8[s]")),
        {"fill_value": 1},
        TypeError,
        "text",
    ),
    "rounded": (
        np.ma.masked_equal([1.0, 2], 2),
        {"fill_value": 3, "keepbits": 4},
        ValueError,
        "keepbits",
    ),
    "another attr": (
        np.ma.masked_equal([1, 2], 2),
        {"fill_value": 3, "attrs": {"_FillValue": 4}},
        ValueError,
        "is 4, fill_value 3",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_would_change_the_meaning_is_refused(case: str, tmp_path: Path) -> None:
    items, options, kind, message = BAD[case]
    with pytest.raises(kind, match=message):
        bp.save(tmp_path / "a.blp", items, **options)
    assert not (tmp_path / "a.blp").exists()


@pytest.mark.parametrize("mode", ["a", "r+"])
@pytest.mark.parametrize("case", GOOD)
def test_masked_rows_have_the_fill_value_of_the_file(case: str, mode: Any, tmp_path: Path) -> None:
    items, fill, _ = GOOD[case]
    masked = np.ma.masked_array(items, np.broadcast_to(MASK, items.shape))
    if items.ndim > 1:
        masked = masked.T.copy()
    bp.save(tmp_path / "a.blp", masked, fill_value=fill)
    whole = bp.load(tmp_path / "a.blp")
    with bp.open(tmp_path / "a.blp", mode) as array:
        array.append(masked)
    twice = np.concatenate([whole, whole]).astype(whole.dtype)
    assert bp.load(tmp_path / "a.blp").tobytes() == twice.tobytes()


def test_masked_items_are_assigned_with_the_fill_value(tmp_path: Path) -> None:
    bp.save(tmp_path / "a.blp", np.arange(6, dtype="i2"), attrs={"_FillValue": -9})
    with bp.open(tmp_path / "a.blp", "r+") as array:
        array[2:4] = np.ma.masked_equal(np.array([7, 8], "i2"), 8)
        array[5] = np.ma.masked
        for given, message in (
            (np.ma.masked_array(np.array([-9, 8], "i2"), [False, True]), "not masked is equal"),
            (np.ma.masked_equal([7, 8], 8), "int64, the file int16"),
        ):
            with pytest.raises((TypeError, ValueError), match=message):
                array[:2] = given
            with pytest.raises((TypeError, ValueError), match=message):
                array.append(given)
    assert bp.load(tmp_path / "a.blp").tolist() == [0, 1, 7, -9, 4, -9]


@pytest.mark.parametrize(
    ("options", "message"),
    [({}, "mask is not stored"), ({"keepbits": 4, "attrs": {"_FillValue": 9.0}}, "rounded")],
)
def test_a_file_that_cannot_mark_masked_rows(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    bp.save(tmp_path / "a.blp", np.arange(6.0), **options)
    with bp.open(tmp_path / "a.blp", "a") as array:
        with pytest.raises((TypeError, ValueError), match=message):
            array.append(np.ma.masked_equal([7.0, 8.0], 8))
        array.append([1.0])
    assert len(bp.load(tmp_path / "a.blp")) == 7
