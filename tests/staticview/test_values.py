"""Fields, complex numbers, dates and large integers in JavaScript are those of the server."""

import json
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.view.raster import to_bytes
from bloscpack.view.slices import Values, field_names

from .test_readers import FOLDER, TWINS, found_by, pytestmark

__all__ = ["pytestmark"]

describe = partial(found_by, "values.mjs")
UNITS = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "25s", "10D"]
# Dates of years with four digits, in units of which 64 bits reach so far.
DATES = {"Y": 8000, "M": 9999, "W": 400_000, "D": 2_900_000, "h": 7 * 10**7, "m": 4 * 10**9}
DATES |= {"25s": 10**10, "10D": 290_000}


def numbers(texts: list[str]) -> Any:
    return np.array([float(text.replace("Infinity", "inf")) for text in texts])


def test_fields_and_parts_are_those_of_the_server(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    inner = np.dtype([("é", ">i2"), ("u", "<u8")])
    record = np.dtype(
        [("a", "<i4"), ("text", "S3"), ("xyz", ">f4", (2, 3)), ("in", inner), ("t", "M8[s]")]
    )
    reordered = np.dtype(
        {"names": ["b", "a"], "formats": ["<i2", ">f4"], "offsets": [6, 1], "itemsize": 9}
    )
    arrays = [
        np.frombuffer(rng.bytes(12 * dtype.itemsize), dtype).reshape(3, 4)
        for dtype in (record, np.dtype(record.descr[:4], align=True), reordered)
    ]
    arrays.append(np.asfortranarray(arrays[0]))
    arrays += [
        (rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4))).astype(t) for t in ("<c8", ">c16")
    ]
    arrays += [rng.integers(-(2**63), 2**63 - 1, 20), rng.integers(-5, 5, 20).astype(">i8")]
    tasks = []
    for number, array in enumerate(arrays):
        path = tmp_path / f"{number}.blp"
        bp.save(path, array, chunks=2)
        tasks.append({"path": str(path), "parts": ["real", "imag", "abs", "angle"]})
    for task, array, found in zip(tasks, arrays, describe(tasks), strict=True):
        assert found.get("fields") == field_names(array.dtype), found
        with bp.open(task["path"]) as opened:
            for field in found["fields"] or [""]:
                for part in task["parts"]:
                    values = Values(opened, field, part)
                    with np.errstate(all="ignore"):
                        expected = values.read([slice(None)] * len(values.shape))
                    mine = numbers(found["numbers"][field + part])
                    np.testing.assert_allclose(mine, expected.ravel(), 1e-6)
                    if array.dtype.kind != "c":
                        np.testing.assert_array_equal(mine, expected.ravel())
    (exact, small) = describe(tasks[-2:])
    assert exact["texts"] == [str(each) for each in arrays[-2]]
    assert (exact["rounded"]["real"], small["rounded"]["real"]) == (True, False)


def test_only_integers_that_change_are_rounded(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    for value, is_rounded in (
        (2**53, False),
        (2**53 + 1, True),
        (2**60, False),
        (-(2**53) - 1, True),
    ):
        bp.save(path, np.array([0, value]))
        (found,) = describe([{"path": str(path)}])
        assert found["rounded"]["real"] is is_rounded, value


def test_dates_are_written_as_numpy_writes_them(tmp_path: Path) -> None:
    rng, tasks, texts = np.random.default_rng(6), [], []
    for kind in "Mm":
        for unit in UNITS:
            most = DATES.get(unit, min(2**62, 2 * 10**11 * 1000 ** (UNITS.index(unit) - 6)))
            low = -1900 if unit == "Y" else -most // 6
            stored = rng.integers(low, most, 200)
            stored[:4] = 0, -1, 1, -(2**63)
            array = stored.view(f"{kind}8[{unit}]").astype(f"{'<>'[len(tasks) % 2]}{kind}8[{unit}]")
            path = tmp_path / f"{kind}{unit}.blp"
            bp.save(path, array)
            tasks.append({"path": str(path)})
            texts.append([str(each) for each in array])
    for task, expected, found in zip(tasks, texts, describe(tasks), strict=True):
        assert found["texts"] == expected, task
        assert found["numbers"]["real"][3] == "NaN"


def test_other_items_are_text(tmp_path: Path) -> None:
    arrays = [
        np.array([True, False]),
        np.array([0.1, 1e30, np.inf], "f4"),
        np.array([1.5 - 2j]),
        np.array(["é\u2028<b>", "x" * 200]),
        np.array([b"ab\xff"]),
        np.array([(1, [2.5, 3], (7,))], [("a", "u8"), ("b", "f8", 2), ("c", [("d", "i1")])]),
        np.array([b"\1\2\xff"], "V3"),
        np.zeros(2, "S0"),
        np.zeros(1, [("a", "f8", (10_000,)), ("b", "f8", (0,))]),
    ]
    tasks = []
    for number, array in enumerate(arrays):
        tasks.append({"path": str(tmp_path / f"{number}.blp")})
        bp.save(tasks[-1]["path"], array)
    found = describe(tasks)
    assert [each.get("texts") for each in found[:-1]] == [
        ["True", "False"],
        ["0.1", "1e+30", "Infinity"],
        ["1.5-2j"],
        ["é\u2028<b>", "x" * 100 + "…"],
        ["abÿ"],
        ["(1, [2.5, 3], (7,))"],
        ["01 02 ff"],
        ["", ""],
    ]
    assert len(found[-1]["texts"][0]) == 101
    assert [each["fields"] for each in found[-4:]] == [["a", "b", "c/d"], [], [], ["a", "b"]]
    assert not found[3]["numbers"]


def test_every_array_of_the_conformance_set_has_texts() -> None:
    names = [name for name, twin in TWINS.items() if twin["kind"] == "array"]
    for name, found in zip(
        names, describe([{"path": str(FOLDER / f"{name}.blp")} for name in names]), strict=True
    ):
        assert "texts" in found, (name, found)
        assert len(found["texts"]) == np.prod(TWINS[name]["array"]["shape"], dtype=int)


@pytest.mark.parametrize(
    "dtype",
    [
        "[('a', '<i4'), ('a', '<i4')]",
        "[('a', '<i4', (-1,))]",
        "[('a', '<i4', (99999, 99999, 99999))]",
        "[('a', '<m8[2000000000000s]')]",
        "[" * 40 + "]" * 40,
        "[('a',)]",
        "'<i3'",
    ],
)
def test_an_invalid_dtype_is_an_error_of_the_file(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "a.blp"
    bp.pack_bytes_to_file(
        b"x" * 8, path, metadata={"container": "numpy", "dtype": dtype, "shape": [1], "order": "C"}
    )
    (found,) = describe([{"path": str(path)}])
    assert found.get("error") == "format", found


@pytest.mark.parametrize("limits", [(-1.7e308, 1.7e308), (0.0, 3e40), (-3.25, 7.5), (2.0, 2.0)])
def test_pixels_are_those_of_the_server(limits: tuple[float, float]) -> None:
    low, high = limits
    values = np.array([*np.linspace(low / 2, high / 2, 9) * 2, np.nan, np.inf, -np.inf])
    expected = to_bytes(values, low, high)
    package = (FOLDER.parent.parent / "bloscpack").as_uri()
    script = (
        f'import {{ toBytes }} from "{package}/view/page/static/numbers.js";'
        f'import {{ paint, table }} from "{package}/display/page/colors.js";'
        f"const values = {[str(each).replace('inf', 'Infinity') for each in values]}.map(Number);"
        f"const pixels = new Uint8Array(48); paint(values, {low}, {high}, 'gray', pixels);"
        f"console.log(JSON.stringify([[...toBytes(values, {low}, {high})], [...pixels]]));"
    )
    found = subprocess.run(
        ["node", "--input-type=module", "-e", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    sent, painted = json.loads(found.stdout)
    assert sent == expected.tolist()
    if high > low:
        assert sent[:9:2] == [0, 64, 128, 191, 255]
        assert painted[:36:4] == [0, 32, 64, 96, 128, 159, 191, 223, 255]


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<f2", "<i4", ">i2", "<u1", "?", "<i8"])
def test_a_histogram_of_a_sample_has_the_range_of_the_statistics(
    dtype: str, tmp_path: Path
) -> None:
    array = np.random.default_rng(1).integers(0, 2, (3000, 20)).astype(dtype)
    if dtype != "?":
        array[1234, 5], array[2345, 0] = 100, 100 if dtype == "<u1" else -100
    if array.dtype.kind == "f":
        array[2000, 3], array[2100] = np.nan, np.inf
    tasks, expected = [], []
    for changeable in (False, True):
        for stats in (False, True):
            path = tmp_path / f"{changeable}-{stats}.blp"
            bp.save(path, array, chunks=7, stats=stats, changeable=changeable)
            tasks.append({"path": str(path)})
            finite = array[np.isfinite(array)] if stats and dtype != "<i8" else array[:7]
            expected.append((int(finite.min()), int(finite.max())))
    found = found_by("statistics.mjs", tasks)
    assert [(each["min"], each["max"]) for each in found] == expected, found


def test_damaged_statistics_are_left_out(tmp_path: Path) -> None:
    for changeable in (False, True):
        path = tmp_path / f"{changeable}.blp"
        bp.save(
            path, np.arange(6000.0).reshape(300, 20), chunks=7, stats=True, changeable=changeable
        )
        data = bytearray(path.read_bytes())
        record = np.array([0.0, 139.0]).tobytes()  # of the first chunk
        data[data.index(record, 8000 if changeable else 0) + 3] ^= 1
        path.write_bytes(data)
    paths = [{"path": str(path)} for path in tmp_path.iterdir()]
    for found in found_by("statistics.mjs", paths):
        assert (found["min"], found["max"]) == (0, 139), found
