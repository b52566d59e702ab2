"""Splits: declarations, and the box that stores them."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.benzina.splits import MAX_NBYTES, pack_splits, resolve_splits, unpack_splits
from bloscpack.exceptions import FormatError


def test_declared_in_all_ways() -> None:
    declared = {"a": (0, 3), "b": range(3, 7), "c": slice(-2, None), "none": [5, 5]}
    assert resolve_splits(declared, 10) == {
        "a": range(3),
        "b": range(3, 7),
        "c": range(8, 10),
        "none": range(5, 5),
    }


def test_imagenet_is_by_position() -> None:
    found = resolve_splits("imagenet", 1_431_167)
    assert found == {
        "train": range(1_281_167),
        "val": range(1_281_167, 1_331_167),
        "test": range(1_331_167, 1_431_167),
    }
    # If samples are missing, the first split is shorter.
    assert resolve_splits("imagenet", 150_001)["train"] == range(1)


@pytest.mark.parametrize(
    ("declared", "kind", "message"),
    [
        ("imagenet", ValueError, "150000 samples.*has 10"),
        ("coco", ValueError, "'imagenet', not 'coco'"),
        ([("a", (0, 1))], TypeError, "mapping or 'imagenet', not list"),
        ({"": (0, 1)}, TypeError, "non-empty"),
        ({3: (0, 1)}, TypeError, "not 3"),
        ({"a": 3}, TypeError, "'a' must be"),
        ({"a": (0, 1, 2)}, TypeError, "'a' must be"),
        ({"a": (0, 1.5)}, TypeError, "'a' must be"),
        ({"a": "xy"}, TypeError, "'a' must be"),
        ({"a": (0, 11)}, ValueError, "not within 10"),
        ({"a": (-1, 3)}, ValueError, "not within 10"),
        ({"a": (4, 3)}, ValueError, "not within 10"),
        ({"a": range(0, 8, 2)}, ValueError, "no step"),
        ({"a": slice(None, None, -1)}, ValueError, "no step"),
    ],
)
def test_invalid_splits(declared: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        resolve_splits(declared, 10)


def test_the_box_byte_by_byte() -> None:
    packed = pack_splits({"train": range(7), "значение": range(7, 2**40)})
    assert packed == (
        b"\0\0\0\0\0\0\0\2"
        b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\7\0\5train"
        b"\0\0\0\0\0\0\0\7\0\0\1\0\0\0\0\0\0\x10" + "значение".encode()
    )
    assert unpack_splits(packed, 2**40) == {"train": range(7), "значение": range(7, 2**40)}
    with pytest.raises(ValueError, match="65535"):
        pack_splits({"x" * 65536: range(1)})


def test_more_splits_than_a_file_may_have() -> None:
    most = {f"{k:_>62}": range(k) for k in range(MAX_NBYTES // 80)}
    assert unpack_splits(pack_splits(most), MAX_NBYTES) == most
    more = {f"{k:_>62}": range(1) for k in range(MAX_NBYTES // 80 + 2)}
    with pytest.raises(ValueError, match="13109 splits take 1048728 bytes, at most 1048576"):
        pack_splits(more)
    with pytest.raises(FormatError, match="more than 1048576 bytes"):
        unpack_splits(pack_splits(most) + bytes(100), MAX_NBYTES)


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
        st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda pair: range(*sorted(pair))),
    )
)
def test_the_box_round_trips(splits: dict[str, range]) -> None:
    assert unpack_splits(pack_splits(splits), 50) == splits


def test_every_cut_is_noticed() -> None:
    packed = pack_splits({"train": range(7), "val": range(7, 9)})
    for end in range(len(packed)):
        with pytest.raises(FormatError, match=r"moov/udta/bzsp"):
            unpack_splits(packed[:end], 9)


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"\1" + pack_splits({"a": range(3)})[1:], "version 1"),
        (pack_splits({"a": range(4)}), "not within 3"),
        (struct.pack(">IIQQH", 0, 1, 2, 1, 1) + b"a", "not within 3"),
        (struct.pack(">IIQQH", 0, 1, 0, 1, 0), "empty"),
        (struct.pack(">IIQQH", 0, 1, 0, 1, 1) + b"\xff", "not UTF-8"),
        (
            struct.pack(">II", 0, 2) + 2 * (struct.pack(">QQH", 0, 1, 1) + b"a"),
            "'a' is empty or a duplicate",
        ),
        (struct.pack(">II", 0, 2**32 - 1), "4294967295 splits in 8 bytes"),
    ],
)
def test_damaged_boxes(payload: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        unpack_splits(payload, 3)
