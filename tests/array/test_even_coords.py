"""Evenly spaced coordinates: stored by their start and step, and computed when they are read."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.array.axislabels import Even, Labels

from ..strategies import assert_same

xr = pytest.importorskip("xarray")
HOURS = np.datetime64("1990-01-01", "ns") + np.arange(10_000) * np.timedelta64(1, "h")
EVEN = {
    "hours": HOURS,
    "days, backwards": np.arange("2026-01-01", "2027-01-01", dtype="M8[D]")[::-1],
    "big-endian times": HOURS.astype(">M8[s]"),
    "lags": np.arange(-20, 20).astype("m8[us]"),
    "bytes": np.arange(0, 255, 5, dtype="u1"),
    "large": np.arange(2**64 - 50, 2**64 - 1, dtype="u8"),
    "from the smallest": np.arange(-128, 127, 5, dtype="i1"),
    "constant": np.full(30, 7, ">i4"),
    "latitudes": np.linspace(-90, 90, 361),
    "cells": np.arange(-89.875, 90, 0.25, dtype="f4"),
    "tenths": (np.arange(3600) * 0.1 - 179.95).astype("f4"),
    "half": (np.arange(100) * 0.5).astype("f2"),
    "arange": np.arange(0.3, 90, 0.1),
}
UNEVEN = {
    "one is later": np.where(np.arange(10_000) == 7000, HOURS + 1, HOURS),
    "no time": np.where(np.arange(10_000) == 7000, np.datetime64("NaT"), HOURS),
    "months": np.arange("2026-01", "2030-01", dtype="M8[M]").astype("M8[D]"),
    "NaN": np.append(np.arange(40.0), np.nan),
    "infinite": np.append(np.arange(40.0), np.inf),
    "negative zero": np.full(20, -0.0),
    "squares": np.arange(40.0) ** 2,
    "bits": np.nextafter(np.linspace(0, 1, 41), 2) ** 1.0000001,
    "few": np.arange(15),
    "overflow": np.append(np.arange(0, 250, 10, dtype="u1"), np.uint8(0)),
}


@pytest.mark.parametrize("case", EVEN)
def test_even_values_are_stored_by_start_and_step(case: str, tmp_path: Path) -> None:
    values = EVEN[case]
    array = xr.DataArray(np.zeros(values.size, "u1"), dims="x").assign_coords(c=("x", values))
    bp.save(tmp_path / "a.blp", array)
    with bp.open(tmp_path / "a.blp") as found:
        assert found.header.format_version == 3
        assert found.attrs["coords"]["c"]["data"].keys() == {"start", "step"}
        assert len(json.dumps(found.attrs["coords"])) < 200
        assert_same(found.coords["c"].values, array["c"].values)


@pytest.mark.parametrize("case", UNEVEN)
def test_other_values_are_listed(case: str, tmp_path: Path) -> None:
    values = UNEVEN[case]
    array = xr.DataArray(np.zeros(values.size, "u1"), dims="x").assign_coords(c=("x", values))
    bp.save(tmp_path / "a.blp", array)
    with bp.open(tmp_path / "a.blp") as found:
        assert len(found.attrs["coords"]["c"]["data"]) == values.size
        assert_same(found.coords["c"].values, array["c"].values)


@given(
    start=st.floats(-1e6, 1e6),
    step=st.floats(-1e3, 1e3),
    size=st.integers(16, 400),
    dtype=st.sampled_from(["<f4", ">f4", "<f8", "<f2"]),
    changed=st.integers(0, 800),
)
def test_floats_are_equal_in_every_bit(
    start: float, step: float, size: int, dtype: str, changed: int
) -> None:
    with np.errstate(over="ignore"):
        values = (np.arange(size) * step + start).astype(dtype)
    if changed < size:
        values[changed] = np.nextafter(values[changed], np.array(0, dtype))
    found = Even.of(values)
    if found is not None:
        assert_same(np.asarray(found), values)


@given(
    first=st.integers(-(2**63), 2**63 - 1),
    last=st.integers(-(2**63), 2**63 - 1),
    size=st.integers(16, 100),
)
def test_integers_of_any_range(first: int, last: int, size: int) -> None:
    step = abs(last - first) // (size - 1) * (1 if last > first else -1)
    values = np.array([first + step * n for n in range(size)], "i8")
    even = Even.of(values)
    assert even is not None
    entry = {"dims": ["x"], "dtype": "<i8", "data": even.pack()}
    found = Labels.unpack({"dims": ["x"], "coords": {"x": entry}}, (size,))
    assert_same(found.coords["x"].values, values)


def test_opening_makes_no_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = xr.DataArray(np.zeros(HOURS.size, "f4"), dims="time", coords={"time": HOURS})
    bp.save(tmp_path / "a.blp", array)

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("values were computed")

    monkeypatch.setattr(Even, "__array__", refuse)
    with bp.open(tmp_path / "a.blp") as found:
        coord = found.coords["time"]
        assert (found.dims, coord.dims, coord.data.shape) == (("time",), ("time",), HOURS.shape)
        assert coord.data.dtype == HOURS.dtype


def test_a_long_axis_costs_nothing(tmp_path: Path) -> None:
    times = np.datetime64("1990-01-01", "ns") + np.arange(1_000_000) * np.timedelta64(1, "h")
    data = np.random.default_rng(0).normal(size=times.size).astype("f4")
    bp.save(tmp_path / "a.blp", xr.DataArray(data, dims="time", coords={"time": times}))
    bp.save(tmp_path / "b.blp", data)
    sizes = [(tmp_path / name).stat().st_size for name in ("a.blp", "b.blp")]
    assert sizes[0] < sizes[1] + 1000
