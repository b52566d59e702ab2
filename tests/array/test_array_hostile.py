"""False array metadata: a BloscpackError at once, without allocating memory or inventing data."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.exceptions import BloscpackError

from ..arrayfiles import content_file

CONTENT = bytes(range(96))
SOUND = {"dtype": "'<i4'", "shape": [24], "order": "C", "container": "numpy"}


def read_everything(data: bytes) -> None:
    """Read in every possible way; at least one must raise a BloscpackError."""
    bp.load(data)
    with bp.open(data) as opened:
        np.asarray(opened)
        opened[...]
        list(opened.iter_chunks())
    bp.unpack_ndarray_from_bytes(data)


def refused(metadata: Any, content: bytes = CONTENT, **layout: Any) -> None:
    """Check that every way of reading a file refuses it, without using much memory."""
    data = content_file(content, metadata, **layout)
    for read in (
        bp.load,
        bp.unpack_ndarray_from_bytes,
        lambda file: bp.open(file)[...],
        lambda file: bp.open(file)[:1],
        lambda file: bp.open(file)[[0, 0, -1]],
        lambda file: bp.open(file).oindex[[0]],
        lambda file: list(bp.open(file)),
        lambda file: np.asarray(bp.open(file)),
        lambda file: bp.open(file).read(),
    ):
        tracemalloc.start()
        try:
            with pytest.raises(BloscpackError):
                read(data)
            assert tracemalloc.get_traced_memory()[1] < 16 << 20
        finally:
            tracemalloc.stop()


def test_sound_metadata_are_read() -> None:
    read_everything(content_file(CONTENT, SOUND))


@pytest.mark.parametrize(
    "shape",
    [
        None, 24, "24", {}, [24.0], ["24"], [None], [[24]], [True] * 24, [24, True], [-24],
        [24, -1], [-2, -12], [23], [25], [24, 2], [0], [], [12],
        [2**31], [2**62], [2**63], [2**64 + 24],
        [2**70], [24, 2**62], [2**32, 2**32], [10**4000], [10**4000, 10**4000], [1] * 65 + [24],
        [24] + [1] * 10_000,
    ],
    ids=lambda shape: str(shape)[:30],
)  # fmt: skip
def test_shapes(shape: Any) -> None:
    refused(SOUND | {"shape": shape})


@pytest.mark.parametrize(
    "shape",
    [
        [0, 2**70],
        [2**70, 0],
        [0, 2**62, 2**62],
        [2**63, 0],
        [10**4000, 0],
        [0] * 65,
        [0] + [1] * 99,
    ],
    ids=lambda shape: str(shape)[:30],
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_shapes_of_zero_items(shape: list[int], order: str) -> None:
    data = content_file(b"", SOUND | {"shape": shape, "order": order})
    for read in (
        bp.load,
        bp.unpack_ndarray_from_bytes,
        lambda file: bp.open(file)[...],
        lambda file: bp.open(file)[:0],
    ):
        try:
            assert read(data).size == 0
        except BloscpackError:
            continue


def test_a_hundred_dimensions_of_one() -> None:
    # numpy 2 has 64, numpy 1 32.
    refused(SOUND | {"shape": [24] + [1] * 99})
    refused(SOUND | {"shape": [24] + [1] * 99}, chunk_nbytes=4)
    refused(SOUND | {"shape": [24] + [1] * 99}, chunk_nbytes=7)


def test_chunks_of_part_items_of_most_dimensions() -> None:
    most = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32
    data = content_file(CONTENT, SOUND | {"shape": [24] + [1] * (most - 1)}, chunk_nbytes=7)
    assert bp.load(data).tobytes() == CONTENT
    try:
        with bp.open(data) as opened:
            found = opened[5].tobytes()
    except BloscpackError:
        return
    assert found == CONTENT[20:24]


@pytest.mark.parametrize(
    "dtype",
    [
        *("'S0'", "'|S0'", "'U0'", "'<U0'", "'a0'", "'|V0'", "'S'", "'U'", "'V'", "[]"),
        "[('a', '|V0')]",
    ],
)
@pytest.mark.parametrize(
    "shape", [[], [0], [1], [2, 3], [1000], [10**9], [2**62], [2**70]], ids=str
)
def test_items_of_zero_bytes_cost_nothing(dtype: str, shape: list[int]) -> None:
    """numpy gives new arrays of such items an item size of 1, which must not have any effect."""
    data = content_file(b"", SOUND | {"dtype": dtype, "shape": shape})
    for read in (bp.load, bp.unpack_ndarray_from_bytes, lambda file: bp.open(file)[...]):
        tracemalloc.start()
        try:
            found = read(data)
            assert found.shape == tuple(shape)
            assert found.nbytes == found.dtype.itemsize == 0
        except BloscpackError:
            continue
        finally:
            assert tracemalloc.get_traced_memory()[1] < 16 << 20
            tracemalloc.stop()


@pytest.mark.parametrize(
    "dtype",
    [
        "'|O'", "'O8'", "'<i8'", "'<i2'", "'|S0'", "[('a', '|O')]", [["a", "|O"]],
        "[('a', '<i4', (2,))]",
        "'|V2147483647'", "[('a', '|V2147483647'), ('b', '|V2147483647')]", None, 5, {}, "nonsense",
        "[('a', '<i4', (2147483647,))]", "[('a', '<i4', (-1,))]", "[('a', '<i4', 10)]",
    ],
    ids=str,
)  # fmt: skip
def test_dtypes(dtype: Any) -> None:
    refused(SOUND | {"dtype": dtype})


@pytest.mark.parametrize("order", [None, "A", "c", "CF", 1, [], {}])
def test_orders(order: Any) -> None:
    refused(SOUND | {"order": order})


@pytest.mark.parametrize("key", ["dtype", "shape"])
def test_missing_keys(key: str) -> None:
    refused({name: value for name, value in SOUND.items() if name != key})


def test_missing_order_is_c() -> None:
    metadata = {name: value for name, value in SOUND.items() if name != "order"}
    assert bp.load(content_file(CONTENT, metadata)).flags.c_contiguous


@pytest.mark.parametrize(
    "logical",
    [
        "|O",
        "O",
        "<i8",
        {"base": "|O", "shape": [1]},
        {"names": ["a"], "titles": [None], "formats": ["|O"], "offsets": [0], "itemsize": 4},
        {"names": ["a"], "titles": [None], "formats": ["<i4"], "offsets": [4], "itemsize": 4},
        {"names": ["a"], "titles": [None], "formats": ["<i4"], "offsets": [-4], "itemsize": 4},
        {"names": ["a"], "titles": [None], "formats": ["<i4"], "offsets": [0], "itemsize": 8},
        [],
        5,
    ],
    ids=str,
)
def test_logical_dtypes(logical: Any) -> None:
    refused(SOUND | {"logical_dtype": logical})


def test_top_level_sub_array_is_refused() -> None:
    # numpy would turn it into further dimensions, and the shape would be wrong.
    metadata = SOUND | {
        "dtype": "'|V8'",
        "shape": [12],
        "logical_dtype": {"base": "<i4", "shape": [2]},
    }
    data = content_file(CONTENT, metadata)
    for read in (bp.load, bp.unpack_ndarray_from_bytes, lambda file: bp.open(file)[:]):
        try:
            found = read(data)
        except BloscpackError:
            continue
        assert found.shape == (12,)
        assert found.tobytes() == CONTENT


def test_attributes_of_any_kind() -> None:
    values: list[Any] = [None, [], "text", 5, {"a": 1}]
    for attrs in values:
        with bp.open(content_file(CONTENT, SOUND | {"attrs": attrs})) as opened:
            assert opened.attrs == (attrs if isinstance(attrs, dict) else {})


def test_shape_that_the_chunks_do_not_have() -> None:
    # The header and the metadata agree on 2 GiB; the chunk has 96 bytes.
    data = bytearray(content_file(CONTENT, SOUND | {"shape": [2**29 - 100]}))
    size = ((2**29 - 100) * 4).to_bytes(4, "little")
    data[8:16] = size + size
    for read in (bp.load, bp.unpack_ndarray_from_bytes, lambda file: bp.open(file)[:]):
        tracemalloc.start()
        try:
            with pytest.raises(BloscpackError):
                read(bytes(data))
            assert tracemalloc.get_traced_memory()[1] < 16 << 20
        finally:
            tracemalloc.stop()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.sampled_from(["C", "<i4", "|O"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@given(
    changes=st.dictionaries(
        st.sampled_from(["dtype", "shape", "order", "logical_dtype", "attrs", "container"]),
        json_values,
        max_size=3,
    ),
    chunk_nbytes=st.sampled_from([0, 4, 7, 96]),
)
def test_any_metadata_give_an_array_or_a_documented_error(
    changes: dict[str, Any], chunk_nbytes: int
) -> None:
    data = content_file(CONTENT, SOUND | changes, chunk_nbytes=chunk_nbytes)
    try:
        found = bp.load(data)
    except (BloscpackError, ImportError):
        return
    assert not found.dtype.hasobject
    assert found.nbytes == len(CONTENT)
    assert found.tobytes("A") == CONTENT
