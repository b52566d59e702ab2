"""False metadata sections: JSON, dtypes and shapes that cost too much or are meaningless."""

import gc
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from crafted import ARRAY, array_file, file_of, header, memcpy_chunk, section
from entries import ARRAY_ERRORS, Reader, describe, outcome

import bloscpack as bp
from bloscpack.exceptions import FormatError
from tests.conftest import Some

Readers = dict[str, Reader]
Survive = Callable[..., dict]

WRONG_TYPES = [
    *(None, True, False, 0, 1, -1, 4, 10**300, -(10**30)),
    *(1.0, 4.5, 1e300, float("nan"), float("inf")),
    *("", "x", "4", "C", "F", "numpy", "\ud800", "\0", "|u1" * 1000),
    *([], [[]], [None], [True] * 4, [4.0], ["4"], [-4], [-1, -4], [4, 1], [[4]]),
    *([1] * 65, [1] * 5000),
    *({}, {"a": 1}, {"shape": [4]}, {"base": "|u1"}, {"base": "|u1", "shape": -1}),
    {"base": "|u1", "shape": [10**30]},
    {"base": {"base": {"base": "|u1", "shape": 1}, "shape": 1}, "shape": 1},
    {"names": None},
    *(
        {"names": names, "titles": titles, "formats": ["|u1"] * len(names), **place}
        for names, titles, place in (
            ([], [], {"offsets": [], "itemsize": 1}),
            (["a"], [None], {"offsets": [-1], "itemsize": 1}),
            (["a"], [None], {"offsets": [1], "itemsize": 1}),
            (["a"], [None], {"offsets": [0.5], "itemsize": 1}),
            (["a"], [None], {"offsets": [10**30], "itemsize": 10**30}),
            (["a"], [None], {"offsets": ["0"], "itemsize": True}),
            ([3], [None], {"offsets": [0], "itemsize": 1}),
            (["a"], [[]], {"offsets": [0], "itemsize": 1}),
            (["a"], ["a"], {"offsets": [0], "itemsize": 1}),
            (["a", "a"], [None] * 2, {"offsets": [0, 0], "itemsize": 1}),
        )
    ),
]
# One for each piece of code that reads the metadata of arrays.
ARRAY_WAYS = ("unpack_ndarray_from_bytes", "load", "append")
KEYS = ("dtype", "shape", "order", "container", "attrs", "logical_dtype", "other")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("key", KEYS)
def test_wrong_type_for_every_key(every_reader: Readers, key: str) -> None:
    for value in WRONG_TYPES:
        file = array_file({**ARRAY, key: value}, offsets=True, max_app_chunks=2)
        for name, read in every_reader.items():
            what, found = outcome(name, read, file)
            assert what != "fault", (name, value, found)
            if what == "value" and name in ("load", "load(path)", "unpack_ndarray_from_bytes"):
                assert found[2] == b"abcd", (name, value)


UNNAMED = {name: value for name, value in ARRAY.items() if name != "container"}


@pytest.mark.parametrize(
    "value", [None, 1, "text", [1], [ARRAY], {}, UNNAMED, {"container": ["numpy"]}]
)
def test_metadata_that_are_not_of_an_array(every_reader: Readers, value: Any) -> None:
    file = array_file(section(value))
    assert every_reader["unpack_bytes_from_bytes"](file) == (b"abcd", value)
    assert every_reader["load"](file) == ("uint8", (4,), b"abcd")
    with pytest.raises(ARRAY_ERRORS):
        every_reader["unpack_ndarray_from_bytes"](file)


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b" ", b"nul", b"{", b"}", b'{"a":', b'"\\ud800', b'"\\x"', b"'a'", b"[1,]", b"{}{}"),
        *(b"\xff\xfe", b"\xef\xbb\xbf{}", b"\x80", b'"\xed\xa0\x80"', b"\0", b'"\0"', b"{}\0"),
        *(b"1" * 5000, b"-", b"1e", b"0x10", b"[" * 100_000, b'{"a":' * 100_000, b"[{}" * 50_000),
        *(b"[" * 990 + b"]" * 991, b"/**/1", b"Infinit", b"1" + b"0" * 4300),
    ],
    ids=lambda raw: repr(raw[:20]),
)
def test_text_that_is_not_json(every_reader: Readers, raw: bytes) -> None:
    for compress in (False, True):
        meta = section(raw=raw, compress=compress)
        file = array_file(meta, offsets=True, max_app_chunks=2)
        readers = ("unpack_bytes_from_bytes", "unpack_file_from_file", "load", "append", "verify")
        for name in readers:
            with pytest.raises(FormatError):
                every_reader[name](file)


def test_duplicate_keys_do_not_split_the_readers(every_reader: Readers) -> None:
    """All ways must use the same one of two values."""
    text = json.dumps(ARRAY)[:-1] + ', "shape": [2, 2], "dtype": "\'|i1\'"}'
    file = array_file(section(raw=text.encode()))
    found = {every_reader[name](file) for name in ("load", "unpack_ndarray_from_bytes")}
    assert found == {("int8", (2, 2), b"abcd")}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_nesting_at_the_limit_of_recursion(
    every_reader: Readers, key: str, brackets: str, some: Some
) -> None:
    """A nesting that the decoder just accepts must not be too deep for the code after it."""
    opening = "[" if brackets == "[]" else '{"a":'
    for depth in some(range(930, 1001, 2), 7):
        nested = opening * depth + "1" + brackets[1] * depth
        text = json.dumps({**ARRAY, key: "@"}).replace('"@"', nested)
        meta = section(raw=text.encode() + b" " * 300)
        file = file_of([memcpy_chunk(b"abcd")], meta=meta, offsets=True, max_app_chunks=2)
        for name, read in every_reader.items():
            what, found = outcome(name, read, file)
            assert what != "fault", (name, depth, found)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "shape",
    [
        [10**4000],
        [10**4000, 10**4000],
        [10**4000] * 300,
        [10**4000] * 3000,
        [1 << 63],
        [(1 << 63) - 1, (1 << 63) - 1],
        [0, 10**4000, 10**4000],
        [1] * 1_000_000,
        [2] * 1_000_000,
        [0] * 65,
        [1 << 62, 4, 0],
    ],
    ids=lambda shape: f"{len(shape)} of {len(str(shape[-1]))} digits, first {str(shape[0])[:3]}",
)
def test_shape_beyond_all_bounds(survive: Survive, shape: list[int]) -> None:
    for content in (b"abcd", b""):
        file = array_file(section({**ARRAY, "shape": shape}, compress=True), content, offsets=True)
        outcomes = survive(file, only=ARRAY_WAYS)
        assert outcomes["unpack_ndarray_from_bytes"].what == "refused"
        assert outcomes["load"].what == "refused"


def _lazily(file: bytes) -> np.ndarray:
    with bp.open(file) as array:
        return array[1:3] if array.shape else array[...]


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    "dtype",
    [
        "[" + "1," * 500_000 + "]",
        "-" * 1_000_000 + "1",
        "(" * 1_000_000,
        "[" * 1_000_000,
        "1" + "+1" * 400_000,
        "1" + "j+1" * 250_000,
        "'" + "a" * 1_000_000 + "'",
        "'a'" * 300_000,
        "b''" * 300_000,
        "{" + "1:1," * 250_000 + "}",
        "9" * 1_000_000,
        "0x" + "f" * 1_000_000,
        "1e" + "9" * 1_000_000,
        "\n" * 1_000_000,
        "#" * 1_000_000,
        "f''" * 300_000,
        "a" + ".a" * 400_000,
        "a" + "[a" * 300_000,
        "not " * 200_000,
        "lambda:" * 100_000,
        repr([(f"n{index}", "|u1") for index in range(50_000)]),
        repr([("", "|V1") for _ in range(60_000)]),
        repr([("", "|u1") for _ in range(60_000)]),
        "[('a'," * 100_000,
        "\0" * 1_000_000,
        "\ud800" * 100_000,
        "\U0001f600" * 100_000,
        "é" * 300_000,
    ],
    ids=lambda text: f"{text[:8]!r}",
)
def test_dtype_of_a_megabyte(survive: Survive, dtype: str) -> None:
    file = array_file(section({**ARRAY, "dtype": dtype}, compress=True), offsets=True)
    outcomes = survive(file, only=ARRAY_WAYS)
    assert outcomes["unpack_ndarray_from_bytes"].what == "refused"


@pytest.mark.parametrize(
    "text",
    [
        "[[]" + ",[]" * 5_500_000 + "]",
        '{"a":[' + "{}," * 5_000_000 + "{}]}",
        "[" + "1e9," * 4_000_000 + "1]",
    ],
    ids=["lists", "objects", "floats"],
)
def test_json_whose_values_outweigh_it(survive: Survive, text: str) -> None:
    """16 MiB of text from 16 KB would become hundreds of MiB of Python objects."""
    file = array_file(section(raw=text.encode(), compress=True), offsets=True)
    survive(file, only=("unpack_bytes_from_bytes", *ARRAY_WAYS))


@pytest.mark.slow
def test_many_dtypes_are_not_kept() -> None:
    """Texts of a file must not stay in memory after the file is closed."""

    def read(index: int) -> None:
        dtype = "'" + f"{index}x" * 7000 + "'"
        with pytest.raises(FormatError):
            bp.load(array_file({**ARRAY, "dtype": dtype}))
        names = [(f"n{index}_{number}", "|u1") for number in range(300)]
        metadata = {**ARRAY, "dtype": repr(names), "shape": [1]}
        assert bp.load(array_file(metadata, bytes(300))).shape == (1,)

    read(0)
    tracemalloc.start()
    try:
        for index in range(1, 300):
            read(index)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 8 << 20, f"{kept >> 20} MiB are kept"


@pytest.mark.slow
def test_many_tiny_chunks_cost_no_more_than_their_share(survive: Survive) -> None:
    """Each chunk is 16 bytes in the file; finding it must not cost hundreds of bytes."""
    count = 400_000
    chunks = memcpy_chunk(b"") * count
    for nchunks, size in ((-1, -1), (count, -1), (count, 0)):
        file = header(nchunks=nchunks, chunk_size=size, last_chunk=size) + chunks
        survive(file, 3 * len(file), only=("unpack_bytes_from_bytes", "read_chunk"))


def test_code_points_that_are_not_characters() -> None:
    """numpy cannot make scalars of them, but the whole array has the stored bytes."""
    content = b"\xff\xff\xff\x7f" * 4
    file = array_file({**ARRAY, "dtype": "'<U2'", "shape": [2]}, content)
    assert describe(bp.load(file))[2] == content
    with bp.open(file) as array:
        assert array[0:1].tobytes() == content[:8]
        with pytest.raises(FormatError):
            array[0]


def test_padding_of_structs_is_what_the_file_has() -> None:
    """Bytes between fields must come from the file, not from uninitialised memory."""
    fields = {"names": ["a", "b"], "formats": ["|u1", "<u4"], "offsets": [0, 4], "itemsize": 16}
    dtype = np.dtype(fields)
    whole = np.frombuffer(bytes(range(16)) * 50, dtype)
    file = bp.pack_ndarray_to_bytes(whole, chunk_size=160)
    # As void items, because numpy's own copy of a strided struct omits the padding.
    items = bp.load(file).view("V16")
    with bp.open(file) as array:
        for key in (slice(3, 9), slice(None, None, 7), slice(20, 2, -3), 5, slice(9, 11)):
            assert np.asarray(array[key]).tobytes() == items[key].tobytes(), key
