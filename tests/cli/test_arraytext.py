"""Text of arrays is that of numpy, formatted in blocks."""

import sys
import warnings

import numpy as np
import pytest

from bloscpack.cli.console import arraytext
from bloscpack.cli.console.arraytext import text_lines

from .conftest import Blpk

rng = np.random.default_rng(5)
_SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-9, 1.5, -2e10])
_RECORD = [("a", "f4"), ("b", "i4"), ("c", "U3"), ("d", [("e", "c16"), ("f", "M8[s]", (2,))])]


def records(count):
    values = np.zeros(count, _RECORD)
    values["a"], values["b"] = rng.random(count), rng.integers(-9, 10**6, count)
    values["c"], values["d"]["e"] = "a\n", rng.random(count) * (1 + 1e7j)
    values["d"]["f"][3] = "NaT"
    return values


ARRAYS = {
    "integers": rng.integers(-5, 10**7, 60),
    "small integers": np.array([1, 2, -300, 4], "i2"),
    "booleans": rng.random(40) < 0.5,
    "floats": rng.standard_normal(60),
    "whole floats": np.arange(60.0),
    "float32": rng.random((5, 20), "f4"),
    "float16": rng.random(20).astype("f2"),
    "big-endian": np.arange(20.0).astype(">f8") / 7,
    "long double": np.arange(20).astype("g") / 3,
    "eighths": np.arange(60) / 8,
    "scientific": rng.standard_normal(60) * 10.0 ** rng.integers(-120, 120, 60),
    "negative zero": np.array([1.0, -0.0, 12.0]),
    "special": _SPECIAL,
    "only NaN": np.full(9, np.nan),
    "NaN and zeros": np.where(np.arange(30) == 17, np.nan, 0),
    "negative infinity": np.where(np.arange(30) == 17, -np.inf, 7),
    "complex": (rng.random(30) + 1j * rng.random(30)).astype("c8"),
    "complex special": _SPECIAL[:4] + 1j,
    "times": np.arange(40).astype("M8[ns]"),
    "missing times": np.array(["2020-01-01", "NaT", "12020-01-01"], "M8[D]"),
    "durations": np.array([1, 100000, -3, "NaT"], "m8[s]"),
    "strings": np.array(["a b", "\0x", "é", "it's", "\n", "\x85"] * 5),
    "bytes": np.array([b"a b", b"\0x", b"\xff"] * 5),
    "void": np.frombuffer(bytes(range(30)), "V3"),
    "records": records(23),
    "no fields": np.zeros(3, []),
    "long words": np.array(["x" * 90, "y" * 30, "z" * 80]),
    "four axes": np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5),
    "short rows": np.arange(60.0).reshape(5, 3, 2, 2) / 3,
    "one item": np.ones((1, 1, 1)),
    "no axes": np.array(1.5),
    "empty": np.zeros((3, 0, 2)),
}


@pytest.mark.parametrize("nitems", [1, 7, 1000])
@pytest.mark.parametrize("name", ARRAYS)
def test_text_is_that_of_numpy(name, nitems, monkeypatch):
    array = ARRAYS[name]
    monkeypatch.setattr(arraytext, "_BLOCK_ITEMS", nitems)
    pieces = [array] if not array.size or not array.ndim else np.array_split(array, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # overflow in float16
        expected = np.array2string(array, threshold=sys.maxsize)
        assert "\n".join(text_lines(array.shape, lambda: iter(pieces))) == expected


@pytest.mark.parametrize("values", [np.arange(30_000), np.arange(30_000) / 8], ids=["int", "float"])
def test_cost_is_linear_and_bounded(values, monkeypatch):
    """Each item is formatted once, beside a few that set the widths; a block at a time."""
    sizes = []
    array2string = np.array2string

    def spy(array, **options):
        sizes.append(array.size)
        return array2string(array, **options)

    monkeypatch.setattr(np, "array2string", spy)
    lines = text_lines(values.shape, lambda: iter([values]))
    assert sum(1 for _ in lines) > 1000
    assert len(sizes) == 30
    assert max(sizes) < 1020


def test_frames_that_differ_are_not_joined(blpk: Blpk, monkeypatch) -> None:
    import bloscpack as bp
    from bloscpack.cli.frames import cat
    from bloscpack.media import image

    pictures = [image.encode_png(np.full(shape, 7, "u1")) for shape in ((4, 5), (4, 5), (6, 5))]
    with bp.frames.create("v.blp") as store:
        store.append("walk", pictures)
    for nbytes in (1 << 20, 40, 20):
        monkeypatch.setattr(cat, "_PIECE_NBYTES", nbytes)
        for form in ("--npy", "--text", "-q"):
            ended = blpk("cat", "v.blp::/walk", form)
            assert ended.code == 1
            assert "frame 2" in ended.err
            assert "read frames that differ one by one" in ended.err
