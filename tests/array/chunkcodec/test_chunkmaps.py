"""Facts and estimates of the choice of a map agree with numpy."""

from typing import Any

import numpy as np
import pytest

from bloscpack._ext.arraychunk import (
    bins_of,
    entropy_of_bytes,
    estimate_predictors,
    facts_of,
    order_into,
    places_into,
    predict_into,
    quotients_into,
)
from bloscpack.format.arraychunk import Predictor

AnyArray = np.ndarray[Any, Any]
KINDS = {"u": 0, "i": 1, "f": 2}


def ordered(items: AnyArray, kind: str) -> AnyArray:
    """Return integers in the order of the items, with numpy."""
    nbits = 8 * items.itemsize
    top = items.dtype.type(1 << nbits - 1)
    if kind == "u":
        return items
    if kind == "i":
        return items ^ top
    return np.where(items & top, ~items, items | top)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
def test_ordered_integers(rng: np.random.Generator, kind: str, itemsize: int) -> None:
    for n in (1, 7, 1000):
        items = rng.integers(0, 256**itemsize, n, f"u{itemsize}") & ~np.array(6, f"u{itemsize}")
        expected = ordered(items, kind)
        facts = facts_of(items.view("u1"), itemsize, KINDS[kind])
        assert facts == (expected.min(), expected.max(), np.bitwise_or.reduce(items))
        for width in [width for width in (1, 2, 4, 8) if width <= itemsize]:
            out = np.empty(n, f"u{width}")
            offset = int(expected.min()) >> 1
            source = items.view("u1")
            order_into(source, itemsize, KINDS[kind], 1, offset, out.view("u1"), width)
            shifted = (expected >> items.dtype.type(1)) - items.dtype.type(offset)
            assert (out == shifted.astype(out.dtype)).all()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("divisor", [1.0, 100.0, 255.0, 1024.0])
def test_quotients(rng: np.random.Generator, dtype: str, divisor: float) -> None:
    numbers = rng.integers(-9999, 9999, 2000)
    floats = (numbers / divisor).astype(dtype)
    bad = [np.nan, np.inf, -np.inf, -0.0, 1e20, -1e300 if dtype == "f8" else -1e30, np.pi, 2.0**31]
    floats[:8] = bad
    out, mask = np.empty(2000, "i4"), np.empty(2000, "u1")
    items = floats.view("u1")
    found = quotients_into(items, floats.itemsize, divisor, out.view("u1"), mask)
    assert mask.tolist() == [1] * 8 + [0] * 1992
    assert (out[8:] == numbers[8:]).all()
    assert found == (1992, numbers[8:].min(), numbers[8:].max())


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
def test_places(rng: np.random.Generator, itemsize: int) -> None:
    values = rng.integers(0, 256**itemsize, 200, f"u{itemsize}")
    values[:2] = 0, 256**itemsize - 1
    items = values[rng.integers(0, 200, 5000)]
    places, entries = np.empty(5000, "u2"), np.empty(256, items.dtype)
    buffers = items.view("u1"), itemsize, places.view("u1")
    count = places_into(*buffers, entries.view("u1"))
    assert count == len(np.unique(items))
    assert (entries[:count][places] == items).all()
    assert places_into(*buffers, entries[:count].view("u1")) == count
    assert places_into(*buffers, entries[: count - 1].view("u1")) == 0


def entropy(values: AnyArray) -> float:
    """Return the bits that all values need if each takes its entropy."""
    _, counts = np.unique(values, return_counts=True)
    return float(-(counts * np.log2(counts / counts.sum())).sum())


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_estimates(rng: np.random.Generator, width: int) -> None:
    walk = np.cumsum(rng.integers(-5, 6, (3, 2, 8, 50)), axis=-1).astype(f"u{width}")
    planes = walk.view("u1").reshape(-1, width)
    expected = sum(entropy(planes[:, j]) for j in range(width))
    assert entropy_of_bytes(walk.reshape(-1).view("u1"), width) == pytest.approx(expected)
    predictors = [0, Predictor.LEFT, Predictor.LORENZO | Predictor.AFTER_SLICE]
    source = walk.reshape(-1).view("u1")
    bits = estimate_predictors(source, width, 2, 8, 50, predictors)
    for predictor, found in zip(predictors, bits, strict=True):
        total = 0.0
        for window in walk:
            out = np.empty_like(window)
            view = window.reshape(-1).view("u1")
            predict_into(view, width, 2, 8, 50, predictor, out.reshape(-1).view("u1"))
            residuals = out.reshape(-1).tolist()
            tops = [max(v.bit_length() - 3, 0) for v in residuals]
            tokens = [(top << 2) + (v >> top) for top, v in zip(tops, residuals, strict=True)]
            total += entropy(np.array(tokens)) + sum(tops)
        assert found == pytest.approx(total)


def test_unfit_buffers_are_refused() -> None:
    four, three = np.zeros(4, "u1"), np.zeros(3, "u1")
    for call in (
        lambda: facts_of(three, 2, 0),
        lambda: facts_of(four[:0], 1, 0),
        lambda: order_into(four, 2, 0, 16, 0, four, 2),
        lambda: order_into(four, 1, 0, 0, 0, three, 1),
        lambda: quotients_into(four, 4, 1.0, three, three),
        lambda: places_into(four, 1, four, four),
        lambda: estimate_predictors(four, 1, 1, 1, 3, [0]),
        lambda: estimate_predictors(four, 1, 1, 1, 4, [Predictor.AFTER_PLANE]),
        lambda: predict_into(four, 1, 1, 1, 4, 0, three),
    ):
        with pytest.raises(ValueError, match=r"need|no |not known"):
            call()


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_bins(rng: np.random.Generator, width: int) -> None:
    choices = [k for k in (1, 2, 3) if (8 * width - k + 1) << k <= 256]
    residuals = np.sort((rng.exponential(40, 3000)).astype(f"u{width}"))
    if width > 1:  # frequent ones, more than there is room for with k = 3
        residuals[:1500] = rng.integers(400, 500, 1500)
        residuals.sort()
    for k, (bits, values) in zip(
        choices, bins_of(residuals.view("u1"), width, choices), strict=True
    ):
        frequent = set(np.frombuffer(values, residuals.dtype).tolist())
        assert len(frequent) <= 256 - ((8 * width - k + 1) << k)
        assert frequent
        tokens, nbits = [], 0
        for v in residuals.tolist():
            top = max(v.bit_length() - 1 - k, 0)
            tokens.append(-v if v in frequent else (top << k) + (v >> top))
            nbits += 0 if v in frequent else top
        assert bits == pytest.approx(entropy(np.array(tokens)) + nbits)
    with pytest.raises(ValueError, match="too many tokens"):
        bins_of(residuals.view("u1"), width, [8 * width])
