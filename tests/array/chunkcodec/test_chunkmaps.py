"""Facts and estimates of the choice of a map agree with numpy."""

from typing import Any

import numpy as np
import pytest

from bloscpack._ext.arraychunk import (
    bins_of,
    bins_of_blocks,
    boxes_into,
    common_divisor,
    divisor_of,
    entropy_of_bytes,
    estimate_predictors,
    facts_of,
    is_ascending,
    order_into,
    places_into,
    predict_into,
    quotients_into,
    sample_into,
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
        lambda: bins_of_blocks(four, 1, 1, 1, 3, 0, 1, [1], four),
        lambda: bins_of_blocks(four, 1, 1, 0, 4, 0, 1, [1], four),
        lambda: bins_of_blocks(four, 1, 1, 1, 4, 0, 0, [1], four),
        lambda: bins_of_blocks(four, 1, 1, 1, 4, 0, 1, [1], three),
        lambda: bins_of_blocks(four, 1, 1, 1, 4, Predictor.AFTER_PLANE, 1, [1], four),
        lambda: sample_into(four, 1, 0, 2, four, four),
        lambda: sample_into(four, 1, 0, 1, four, three),
        lambda: sample_into(four, 1, 0, 0, four, four),
        lambda: sample_into(four, 1, 3, 1, four, four),
        lambda: common_divisor(four, three, 2, 0, 0),
        lambda: common_divisor(four, four, 4, 2, 0),
        lambda: divisor_of(four, 2, [1.0], 9, 1.0, 1.0),
        lambda: divisor_of(four, 4, [1.0], 0, 1.0, 1.0),
        lambda: divisor_of(four, 4, [1.0] * 65, 9, 1.0, 1.0),
    ):
        with pytest.raises(ValueError, match=r"need|no |not known"):
            call()


@pytest.mark.parametrize(
    ("itemsize", "shape", "starts", "sides", "room"),
    [
        (1, (1, 1, 4), [], (1, 1, 1), 0),
        (1, (1, 1, 4), [(0, 0, 0)] * 17, (1, 1, 1), 17),
        (0, (1, 1, 4), [(0, 0, 0)], (1, 1, 1), 1),
        (1, (1, 1, 5), [(0, 0, 0)], (1, 1, 1), 1),
        (1, (1, 1, 3), [(0, 0, 0)], (1, 1, 1), 1),
        (2, (1, 1, 4), [(0, 0, 0)], (1, 1, 1), 2),
        (1, (2**40, 2**40, 4), [(0, 0, 0)], (1, 1, 1), 1),
        (1, (2**63, 2, 4), [(0, 0, 0)], (1, 1, 1), 1),
        (1, (1, 2, 2), [(0, 0, 0)], (1, 1, 3), 3),
        (1, (1, 2, 2), [(0, 0, 0)], (1, 0, 1), 0),
        (1, (1, 2, 2), [(0, 0, 0), (0, 1, 0)], (1, 2, 1), 4),
        (1, (1, 2, 2), [(1, 0, 0)], (1, 1, 1), 1),
        (1, (1, 2, 2), [(0, 0, 2**63)], (1, 1, 1), 1),
        (1, (1, 2, 2), [(0, 0, 0)], (1, 1, 1), 2),
    ],
)
def test_boxes_outside_of_the_array_are_refused(
    itemsize: int, shape: Any, starts: Any, sides: Any, room: int
) -> None:
    with pytest.raises(ValueError, match="box"):
        boxes_into(np.zeros(4, "u1"), itemsize, shape, starts, sides, np.zeros(room, "u1"))


@pytest.mark.parametrize("itemsize", [1, 2, 6, 8])
def test_boxes(rng: np.random.Generator, itemsize: int) -> None:
    shape, sides = (5, 6, 7), (2, 6, 3)
    items = rng.integers(0, 256, (*shape, itemsize), "u1")
    starts = [(0, 0, 0), (3, 0, 4), (1, 0, 2)]
    out = np.empty((3, *sides, itemsize), "u1")
    boxes_into(items.reshape(-1), itemsize, shape, starts, sides, out.reshape(-1))
    for box, (z, y, x) in zip(out, starts, strict=True):
        assert (box == items[z : z + 2, y : y + 6, x : x + 3]).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
def test_samples(rng: np.random.Generator, kind: str, itemsize: int) -> None:
    for n, step, most in ((1, 1, 9), (5, 7, 9), (1001, 3, 40), (3000, 1, 256**itemsize)):
        items = rng.integers(0, min(most, 2**63), n, f"u{itemsize}")
        items[::5] -= np.array(1, items.dtype)  # with the largest ones
        drawn, found = np.empty((2, -(-n // step)), items.dtype)
        source, buffers = items.view("u1"), (drawn.view("u1"), found.view("u1"))
        count, least, largest = sample_into(source, itemsize, KINDS[kind], step, *buffers)
        assert (drawn == items[::step]).all()
        expected, counts = np.unique(ordered(items[::step], kind), return_counts=True)
        assert found[:count].tolist() == expected.tolist()
        assert (least, largest) == (counts[0], counts[-1])


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
def test_common_divisors(rng: np.random.Generator, itemsize: int) -> None:
    for kind in "ui":
        for step, odd in ((1, 0), (3, 0), (12, 0), (12, 8), (12, 1)):
            items = (rng.integers(0, 9, 500) * step + 7).astype(f"u{itemsize}")
            items[300] += np.array(odd, items.dtype)  # not in the sample
            key = ordered(items, kind)
            least, sample = int(key.min()), np.unique(key[:100])
            expected = int(np.gcd.reduce(key - key.min()))
            source = items.view("u1")
            found = common_divisor(sample.view("u1"), source, itemsize, KINDS[kind], least)
            assert found == expected
    same = np.full(9, 5, f"u{itemsize}")
    assert common_divisor(same.view("u1"), (same * 2).view("u1"), itemsize, 0, 5) == 1


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_divisors(rng: np.random.Generator, dtype: str) -> None:
    divisors = [1.0, 10.0, 100.0, 8.0]

    def found(floats: AnyArray) -> float | None:
        return divisor_of(floats.view("u1"), floats.itemsize, divisors, 128, 0.9, 0.95)

    floats = (rng.integers(-999, 999, 2000) / 100).astype(dtype)
    assert found(floats) == 100.0
    assert found((floats * 100).round()) == 1.0
    assert found(np.cumsum(np.full(1000, 0.125, dtype))) == 8.0
    assert found(rng.normal(0, 1, 2000).astype(dtype)) is None
    floats[:90] = np.pi
    assert found(floats) == 100.0
    floats[:110] = np.pi  # among the few there are enough
    assert found(floats) is None
    floats[: len(floats) // 2] = np.nan
    assert found(floats) == 100.0
    floats[-1] = -np.inf
    assert found(floats) is None


def test_ascending_integers() -> None:
    for width in (1, 2, 4, 8):
        for values in ([], [0], [0, 1], [3, 3], [1, 0], [1, 256**width - 1], [256**width - 1, 1]):
            packed = b"".join(value.to_bytes(width, "little") for value in values)
            assert is_ascending(packed, width) == (values == sorted(set(values)))
    with pytest.raises(ValueError, match="9 bytes"):
        is_ascending(b"", 9)


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
    with pytest.raises(ValueError, match="at most 8"):
        bins_of(residuals.view("u1"), width, [1] * 9)


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_bins_of_blocks(rng: np.random.Generator, width: int) -> None:
    blocks = np.cumsum(rng.integers(-9, 10, (3, 2, 8, 50)), axis=-1).astype(f"u{width}")
    blocks[1, 0, 3, 7] = 256**width - 1
    predictor = Predictor.LEFT | Predictor.AFTER_SLICE
    expected, found = np.empty_like(blocks), np.empty_like(blocks)
    for block, out in zip(blocks, expected, strict=True):
        source, target = block.reshape(-1).view("u1"), out.reshape(-1).view("u1")
        predict_into(source, width, 2, 8, 50, predictor, target)
    source, target = blocks.reshape(-1).view("u1"), found.reshape(-1).view("u1")
    for step in (1, 7):
        bins = bins_of_blocks(source, width, 2, 8, 50, predictor, step, [1, 2], target)
        assert (found == expected).all()
        sample = np.sort(expected.reshape(-1)[::step])
        assert bins == bins_of(sample.view("u1"), width, [1, 2])
