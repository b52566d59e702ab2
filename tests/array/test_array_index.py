"""Indexing by lists and masks: equal to numpy, reading each needed chunk once."""

import copy
import json
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloscpack as bp

from ..arrayfiles import NotingFile, array_file, bytes_read_per_chunk
from ..reference.selection import outer
from ..strategies import (
    AnyArray,
    assert_same,
    fill,
    outer_selections,
    picking_selections,
    selections,
)
from .test_array_read import stored_arrays


@given(stored_arrays(min_dims=1), st.data())
def test_oindex_is_the_outer_product(stored: tuple[AnyArray, bytes], data: st.DataObject) -> None:
    array, file = stored
    with bp.open(file) as opened:
        for _ in range(4):
            index = data.draw(outer_selections(array.shape))
            assert_same(opened.oindex[index], outer(array, index))


_LOOK = 64


@given(st.data(), st.sampled_from("CF"), st.booleans(), st.integers(1, 9))
def test_each_chunk_is_read_once_and_no_other(
    data: st.DataObject, order: Any, cut: bool, rows: int
) -> None:
    # Random bytes do not compress, so each chunk is larger than a look at its header.
    shape = data.draw(st.sampled_from([(20,), (11, 4), (5, 3, 4)]))
    array = fill(np.dtype("V2001"), shape, 3).copy(order)
    nbytes = rows * 4002 - cut
    kind = data.draw(st.sampled_from([selections, picking_selections, outer_selections]))
    index = data.draw(kind(shape))
    items = np.arange(array.size).reshape(shape, order=order)
    wanted = outer(items, index) if kind is outer_selections else items[index]
    needed = {
        chunk
        for item in np.ravel(wanted).tolist()
        for chunk in range(item * 2001 // nbytes, (item * 2001 + 2000) // nbytes + 1)
    }
    stream = NotingFile(array_file(array, chunk_nbytes=nbytes))
    with bp.open(stream) as opened:
        stream.reads.clear()
        if kind is outer_selections:
            opened.oindex[index]
        else:
            opened[index]
        read = bytes_read_per_chunk(stream)
        sizes = bytes_read_per_chunk(whole_read(stream))
    # Chunk headers are read to validate the table. The end of the last chunk is only known from
    # its own header, which is read first.
    touched = {chunk for chunk, count in read.items() if count > min(_LOOK, sizes[chunk] - 1)}
    assert touched == needed
    last = opened.nchunks - 1
    assert all(
        count <= sizes[chunk] + _LOOK + 4096 * (chunk == last) for chunk, count in read.items()
    )


def whole_read(stream: NotingFile) -> NotingFile:
    copy = NotingFile(stream.getvalue())
    copy.reads.append((0, len(stream.getvalue())))
    return copy


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("chunk_nbytes", [1, 3, 4, 20, 24, 30, 48, 100, 300])
def test_single_rows(order: Any, chunk_nbytes: int) -> None:
    array = fill(np.dtype("<i4"), (11, 6), 3).copy(order)
    with bp.open(array_file(array, chunk_nbytes=chunk_nbytes)) as opened:
        for row in range(-11, 11):
            assert_same(opened[row], array[row])
            assert_same(opened[row, 2:4], array[row, 2:4])
        for row in (-12, 11):
            with pytest.raises(IndexError, match="axis 0 with size 11"):
                opened[row]


class TestResults:
    ARRAY = fill(np.dtype("<i4"), (30, 8), 1)

    def opened(self) -> bp.Array:
        return bp.open(array_file(self.ARRAY, chunk_nbytes=4 * 32))

    def test_are_new_and_writable(self) -> None:
        with self.opened() as opened:
            for index in ([3, 1], [True] * 30, (0, [1, 0]), ([0, 5, 1], slice(None), None)):
                found = opened[index]
                assert found.flags.writeable
                found[...] = 0
                assert_same(opened[index], self.ARRAY[index])

    def test_repeats_whose_span_equals_their_number(self) -> None:
        with self.opened() as opened:
            for index in ([3, 3, 5], [5, 3, 3], [0, 0, 2, 9, 9, 11], [1, 0, 0]):
                assert_same(opened[index], self.ARRAY[index])

    def test_many_repeats_are_not_taken_for_damage(self) -> None:
        # The check of the decoded size must count repeated rows only once.
        array = np.zeros((10, 100), "<i4")
        with bp.open(array_file(array)) as opened:
            assert opened[[3, 4, 7] * 50_000].shape == (150_000, 100)

    def test_several_lists_are_refused_with_advice(self) -> None:
        with self.opened() as opened:
            with pytest.raises(TypeError, match="oindex"):
                opened[[0, 1], [2, 3]]
            assert_same(opened.oindex[[0, 1], [2, 3]], self.ARRAY[np.ix_([0, 1], [2, 3])])
            mask = self.ARRAY[0] > 0
            assert_same(opened.oindex[5, mask], self.ARRAY[5, mask])
            assert_same(opened.oindex[..., [2, 0]], self.ARRAY[..., [2, 0]])

    def test_masks_by_value_are_refused(self) -> None:
        with self.opened() as opened, pytest.raises(TypeError, match="2 dimensions"):
            opened[self.ARRAY > 0]

    def test_tensors_are_lists(self) -> None:
        torch = pytest.importorskip("torch")
        with self.opened() as opened:
            assert_same(opened[torch.tensor([3, 1])], self.ARRAY[[3, 1]])
            assert_same(opened[torch.tensor(3)], self.ARRAY[3])


class TestUnsupportedOperations:
    """Operations of ndarray that an array in a file lacks are refused, with advice."""

    def test_refusals(self) -> None:
        array = np.arange(6).reshape(2, 3)
        with bp.open(array_file(array)) as opened:
            other: Any = opened
            with pytest.raises(TypeError, match="truth value"):
                bool(opened)
            for compare in (
                lambda: other == 5,
                lambda: other != 5,
                lambda: 5 in other,
            ):
                with pytest.raises(TypeError, match=r"a\[...\]"):
                    compare()
            for compute in (lambda: other < 5, lambda: other + 1, lambda: -other):
                with pytest.raises(TypeError):
                    compute()
            for number in (int, float, complex):
                with pytest.raises(TypeError):
                    number(other)
            with pytest.raises(TypeError, match="open it with mode 'r\\+' to change it"):
                other[0] = 1
            with pytest.raises(TypeError, match="deleted"):
                del other[0]

    def test_they_are_themselves(self) -> None:
        with bp.open(array_file(np.arange(6))) as opened:
            assert opened in [opened]
            assert {opened: 1}[opened] == 1

    def test_numpy_computes_with_them(self) -> None:
        array = np.arange(6).reshape(2, 3)
        with bp.open(array_file(array)) as opened:
            assert_same(np.add(opened, 1), array + 1)
            assert_same(array == opened, np.ones((2, 3), bool))


class TestShown:
    def test_repr_is_one_line(self) -> None:
        dtype = np.dtype([(f"name\n{n}" * 20, "<i4") for n in range(20)])
        with bp.open(array_file(np.zeros(3, dtype))) as opened:
            assert "\n" not in repr(opened)
            assert len(repr(opened)) < 400

    def test_html_is_escaped(self) -> None:
        evil = "<script>alert(1)</script>"
        dtype = np.dtype([(evil, "<i4")])
        data = array_file(np.zeros(3, dtype), attrs={evil: [evil, "&"]})
        with bp.open(data) as opened:
            html = opened._repr_html_()
            assert "<script" not in html
            assert "&lt;script&gt;" in html
            assert html.startswith("<table>")
            for words in ("(3,)", "attrs", "memory", str(opened.cbytes)):
                assert words in html
        assert "<table>" in opened._repr_html_(), "a closed one can be shown too"

    def test_html_is_short(self) -> None:
        with bp.open(array_file(np.zeros(3), attrs={"a": "x" * 100_000})) as opened:
            assert len(opened._repr_html_()) < 2000

    def test_changing_attrs_of_an_array_open_for_reading_raises(self) -> None:
        data = array_file(np.zeros(3), attrs={"a": 1, "b": {"c": [1, {"d": 2}]}})
        with bp.open(data) as opened:
            attrs = opened.attrs
            assert attrs == {"a": 1, "b": {"c": [1, {"d": 2}]}}
            for change in (
                lambda: attrs.__setitem__("a", 2),
                lambda: attrs["b"].update(c=3),
                lambda: attrs["b"]["c"].append(3),
                lambda: attrs["b"]["c"][1].pop("d"),
                lambda: attrs.__ior__({"a": 2}),
                lambda: attrs["b"]["c"].__delitem__(0),
                lambda: setattr(opened, "attrs", {}),
            ):
                with pytest.raises(TypeError, match=r"open it with mode 'a' .* copy.deepcopy"):
                    change()
            assert opened.attrs == {"a": 1, "b": {"c": [1, {"d": 2}]}}
        with pytest.raises(TypeError, match="mode 'a'"):
            opened.attrs["a"] = 2
        for own in (copy.deepcopy(attrs), pickle.loads(pickle.dumps(attrs))):
            own["b"]["c"].append(3)
            assert type(own) is dict
        assert json.dumps(attrs) == '{"a": 1, "b": {"c": [1, {"d": 2}]}}'


@pytest.mark.parametrize("dtype", ["<f4", "U3", [("a", "i1"), ("b", "<i4")]])
def test_integers_select_rows_and_items(dtype: Any) -> None:
    array = fill(np.dtype(dtype), (7, 5, 4), 3)
    if array.dtype.kind == "U":
        array = np.full((7, 5, 4), "abc")
    with bp.open(array_file(array, chunk_nbytes=3 * array[0].nbytes)) as a:
        indices: list[Any] = [3, -7, np.int64(-1), (6, 4, 3), (np.uint8(2), -5, np.int16(-4))]
        for index in [*indices, (5, 1), (0,), (True, 0), np.True_, (1, None, 2)]:
            assert_same(a[index], array[index])
            assert type(a[index]) is type(array[index])
        for index in (7, (0, -6), (1, 2, np.uint64(4))):
            with pytest.raises(IndexError, match="is out of bounds for axis"):
                a[index]
