"""Arrays of every kind of dtype that Zarr supports, and of those that it does not."""

from typing import Any

import numpy as np

AnyArray = np.ndarray[Any, np.dtype[Any]]

SHAPE = (23, 3, 5)
DTYPES = [
    "|b1",
    *(f"{order}{kind}" for kind in ("i2", "u4", "i8", "f2", "f4", "f8", "c8") for order in "<>"),
    "|i1",
    "|u1",
    ">u8",
    "<c16",
    "<M8[ns]",
    ">M8[10us]",
    "<M8",
    "<m8[D]",
    ">m8[h]",
    "<m8",
    "|S1",
    "|S7",
    "<U3",
    ">U2",
    "|V6",
]
RECORDS = {
    "plain": [("a", "<i2"), ("b", ">f8"), ("c", "?")],
    "texts": [("name", "<U3"), ("raw", "S2"), ("when", "<M8[s]"), ("void", "V3")],
    "unicode": [("größe", "<f4"), ("a b", "|u1")],
}
UNSUPPORTED: dict[str, Any] = {
    "float128": "<f16",
    "complex256": "<c32",
    "nested": [("a", "<i4"), ("b", [("c", "<i4")])],
    "sub-array": [("a", "<i4", (2,))],
    "aligned": np.dtype([("a", "i1"), ("b", "<i4")], align=True),
    "reordered": np.dtype({"names": ["a", "b"], "formats": ["<i4", "<i4"], "offsets": [4, 0]}),
    "trailing": np.dtype({"names": ["a"], "formats": ["<i4"], "itemsize": 9}),
    "titles": [(("the title", "a"), "<i4")],
    "no bytes": "|V0",
    "empty text": "<U0",
    "no fields": np.dtype([]),
}


def array_of(dtype: Any, shape: tuple[int, ...] = SHAPE) -> AnyArray:
    """Return an array of any dtype, with different items if the dtype allows it."""
    dtype = np.dtype(dtype)
    array = np.ndarray(shape, dtype)
    if dtype.names is not None:
        for name in dtype.names:
            array[name] = array_of(dtype[name], shape)
    elif dtype.itemsize:
        numbers = np.arange(array.size).reshape(shape)
        if dtype.kind in "V":
            array[...] = np.frombuffer(numbers.astype("<u8").tobytes(), "V8").reshape(shape)
        elif dtype.kind in "Mm":
            numbers.flat[:1] = -(2**63)  # not a time
            array[...] = numbers.astype(dtype.str[0] + "i8").view(dtype)
        elif dtype.kind == "b":
            array[...] = numbers % 5 < 2
        else:
            array[...] = (numbers % 101 - (dtype.kind in "ifc")).astype(dtype)
        if dtype.kind in "fc" and array.size:
            array[(0,) * array.ndim] = np.nan
    return array


def check_equal(found: Any, expected: AnyArray) -> None:
    """Check dtype, shape and every bit."""
    found = np.asarray(found)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes()
