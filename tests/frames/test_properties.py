"""Properties: any frames, ids, metadata and options put into a store are read back equal."""

import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.frames.store.frameencoding import PRESETS

from ..faults.disk import without_syncs
from ..strategies import SCALARS, AnyArray, arrange, fill, layouts, slices

ml_dtypes = pytest.importorskip("ml_dtypes")
Dtype = np.dtype[Any]

EXTENSIONS = [np.dtype(getattr(ml_dtypes, name)) for name in ("bfloat16", "float8_e5m2", "int4")]
# Text and bytes are not frames.
NUMBERS = [dtype for dtype in map(np.dtype, SCALARS) if dtype.kind not in "SU"]
dtypes = st.sampled_from([*NUMBERS, *EXTENSIONS])
# Bytes, depth, features, masks: the usual kinds of frames.
usual = st.sampled_from(["u1", "u1", "<u2", ">u2", "<f4", "?"]).map(np.dtype)
channels = st.sampled_from([(), (1,), (2,), (3,), (4,), (5,)])
images = st.tuples(st.integers(1, 12), st.integers(1, 40))
shapes = st.one_of(
    st.builds(lambda image, last: image + last, images, channels),
    st.lists(st.integers(0, 5), max_size=8).map(tuple),
)
ids = st.text(st.characters() | st.characters(categories=["Cs"]), max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | ids,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ids, inner, max_size=3),
    max_leaves=6,
)
metas = st.dictionaries(ids, json_values, max_size=3)


@st.composite
def frames(draw: st.DrawFn) -> AnyArray:
    """Return noise frames, or frames that move little; in any layout."""
    shape = draw(shapes)
    count = draw(st.integers(0, 20))
    if math.prod(shape) > 4000:
        count = min(count, 3)
    found = fill(draw(usual | dtypes), (count, *shape), draw(st.integers(0, 2**32)))
    if count and draw(st.booleans()):
        found[...] = found[0].copy()
        found[:, ...].reshape(-1)[: count // 2] = found.reshape(-1)[-1:]
    return arrange(found, draw(layouts))


@st.composite
def selections(draw: st.DrawFn, nframes: int) -> Any:
    kind = draw(st.sampled_from(["all", "slice", "list", "int", "mask"]))
    if kind == "all":
        return draw(st.sampled_from([None, ...]))
    if kind == "slice" or not nframes:
        return draw(slices(nframes))
    place = st.integers(-nframes, nframes - 1)
    if kind == "int":
        return draw(place)
    if kind == "list":
        listed = draw(st.lists(place, max_size=2 * nframes))
        return draw(st.sampled_from([listed, np.array(listed, "i8")]))
    return np.array(draw(st.lists(st.booleans(), min_size=nframes, max_size=nframes)))


def assert_equal(found: AnyArray, expected: AnyArray) -> None:
    assert isinstance(found, np.ndarray)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.dtype.byteorder == expected.dtype.byteorder
    if expected.dtype.char in "gG":  # a scalar of NumPy does not keep the bytes beyond its 80 bits
        np.testing.assert_array_equal(found, expected)
    else:
        assert found.tobytes() == expected.tobytes()


@given(st.data())
def test_round_trip(data: st.DataObject) -> None:
    names = data.draw(st.lists(ids, min_size=1, max_size=4, unique=True))
    kept: dict[str, tuple[AnyArray, Any]] = {}
    with TemporaryDirectory() as folder, without_syncs():
        path = Path(folder) / "a.blp"
        bp.frames.create(path, nthreads=1).close()
        for each in names:
            kept[each] = data.draw(frames()), data.draw(metas)
            preset = data.draw(st.sampled_from(PRESETS))
            with bp.frames.open(path, "a", nthreads=1) as store:
                given_frames = kept[each][0]
                if data.draw(st.booleans()):
                    store.append(each, given_frames, kept[each][1], preset=preset)
                elif len(given_frames):
                    items = (given_frames[k, ...] for k in range(len(given_frames)))
                    store.append(each, items, kept[each][1], preset=preset)
                else:
                    kept[each] = np.zeros(0, "u1"), {}
                    store.append(each, [], preset=preset)
        with bp.frames.open(path) as store:
            assert list(store) == names
            for each, (expected, meta) in kept.items():
                found = store[each]
                assert found.meta == meta
                assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
                assert_equal(found.read(), np.ascontiguousarray(expected))
            asked = []
            for _ in range(data.draw(st.integers(1, 4))):
                each = data.draw(st.sampled_from(names))
                asked.append((each, data.draw(selections(len(kept[each][0])))))
            expected_parts = []
            for each, selection in asked:
                whole = kept[each][0]
                part = whole[:] if selection is None else whole[selection]
                expected_parts.append(np.array(part, whole.dtype))
                assert_equal(store[each].read(selection), expected_parts[-1])
            found_parts = store.read(asked)
            assert len(found_parts) == len(asked)
            is_array = isinstance(found_parts, np.ndarray)
            for number, two in enumerate(expected_parts):
                assert_equal(
                    found_parts[number, ...] if is_array else found_parts[number],  # type: ignore
                    two,
                )


@given(st.lists(st.lists(ids, max_size=6), max_size=6))
def test_any_sequence_of_appends_and_flushes(groups: list[list[str]]) -> None:
    expected: list[str] = []
    with TemporaryDirectory() as folder, without_syncs():
        path = Path(folder) / "a.blp"
        with bp.frames.create(path) as store:
            for group in groups:
                for each in group:
                    if each in expected:
                        with pytest.raises(ValueError, match="already"):
                            store.append(each, [])
                    else:
                        store.append(each, np.array([len(expected)]), {"id": each})
                        expected.append(each)
                store.flush()
                assert list(store) == expected
        with bp.frames.open(path) as store:
            assert list(store) == expected
            for number, each in enumerate(expected):
                assert store[each].read().tolist() == [number]
                assert store[each].meta == {"id": each}


@given(st.data())
def test_images(data: st.DataObject) -> None:
    image = pytest.importorskip("bloscpack.media.image")
    pytest.importorskip("simplejpeg")
    pytest.importorskip("PIL")
    shape = st.tuples(st.integers(1, 20), st.integers(1, 20))
    same = data.draw(st.none() | shape)
    stored = []
    for number in range(data.draw(st.integers(1, 6))):
        height, width = same or data.draw(shape)
        last = data.draw(st.sampled_from([(), (3,)])) if same is None else (3,)
        pixels = fill(np.dtype("u1"), (height, width, *last), number)
        encode = data.draw(st.sampled_from([image.encode_jpeg, image.encode_png]))
        stored.append(encode(pixels))
    expected = [image.decode(each) for each in stored]
    selection = data.draw(selections(len(stored)))
    picked = frame_numbers(selection, len(stored))
    with TemporaryDirectory() as folder, without_syncs():
        path = Path(folder) / "a.blp"
        with bp.frames.create(path) as store:
            store.append("a", stored)
            found = store["a"]
            assert found.read_images(selection) == [stored[k] for k in picked]
            if len({expected[k].shape for k in picked}) > 1:
                with pytest.raises(ValueError, match="differ"):
                    found.read(selection)
            elif picked:
                result = found.read(selection)
                stack = np.stack([expected[k] for k in picked])
                assert_equal(result, stack[0] if isinstance(selection, int) else stack)


def frame_numbers(selection: Any, nframes: int) -> list[int]:
    everything = np.arange(nframes)
    picked = everything if selection is None else everything[selection]
    return [int(each) for each in np.atleast_1d(picked)]
