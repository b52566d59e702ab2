"""Dtypes as text: every dtype round-trips, no text is evaluated, hostile texts raise errors."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.array.dtype import EXTENSION_TYPES, pack_dtype, unpack_dtype
from bloscpack.exceptions import BloscpackError, FormatError, ObjectNumpyArrayRejection

from ..conftest import REPOSITORY
from ..strategies import SCALARS, dtypes

EXTENSIONS = sorted(EXTENSION_TYPES)


def round_trip(dtype: np.dtype[Any]) -> np.dtype[Any]:
    text, logical = pack_dtype(dtype)
    return unpack_dtype(text, json.loads(json.dumps(logical)))


@given(dtypes)
@example(np.dtype([]))
@example(np.dtype({"names": [], "formats": [], "itemsize": 8}))
@example(np.dtype([("a", "V3"), ("b", "i4")]))
@example(np.dtype([("", "i4"), ("", "i4")]))
@example(np.dtype([("a", "S0"), ("b", "U0"), ("c", "V0")]))
@example(np.dtype([("\u00e4\u20ac", "i4"), ("a b'\"\\\n", "i4")]))
@example(np.dtype({"names": ["b", "a"], "formats": ["i4", "i4"], "offsets": [4, 0]}))
@example(np.dtype({"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 2]}))
def test_every_dtype_survives(dtype: np.dtype[Any]) -> None:
    found = round_trip(dtype)
    assert found == dtype
    assert found.itemsize == dtype.itemsize
    assert found.names == dtype.names
    if dtype.fields is not None and found.fields is not None:
        assert {name: field[1:] for name, field in found.fields.items()} == {
            name: field[1:] for name, field in dtype.fields.items()
        }


@given(dtypes)
def test_the_first_text_has_the_right_size(dtype: np.dtype[Any]) -> None:
    # The original reads only `dtype`: raw bytes at worst, never a wrong size.
    text, _ = pack_dtype(dtype)
    assert unpack_dtype(text).itemsize == dtype.itemsize


@pytest.mark.parametrize("name", SCALARS)
def test_scalars_are_written_as_the_original_does(name: str) -> None:
    dtype = np.dtype(name)
    assert pack_dtype(dtype) == (repr(dtype.str), None)


def test_structures_are_written_as_the_original_does() -> None:
    dtype = np.dtype([("a", "<i4"), (("Title", "b"), "<f8", (2, 3))])
    assert pack_dtype(dtype) == (repr(dtype.descr), None)
    aligned = np.dtype([("a", "i1"), ("b", "<i8")], align=True)
    assert pack_dtype(aligned) == ("[('a', '|i1'), ('', '|V7'), ('b', '<i8')]", None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("'<f8'", "<f8"),
        ("<f8", "<f8"),  # releases 0.4.1 to 0.7.1
        ([["", "<f8"]], "<f8"),  # release 0.4.0: always a list
        ("[('', '<f8')]", "<f8"),
        ([["a", "<i4"], ["b", "<f8", [2]]], [("a", "<i4"), ("b", "<f8", (2,))]),
        ("[('a', '<i4', 3)]", [("a", "<i4", (3,))]),
        ([["a", [["b", "<i4"]]]], [("a", [("b", "<i4")])]),
        ("'|a5'", "S5"),
        ("'=i4'", "i4"),
    ],
    ids=str,
)
def test_texts_of_all_releases(text: Any, expected: Any) -> None:
    assert unpack_dtype(text) == np.dtype(expected)


class TestObjects:
    @pytest.mark.parametrize(
        "dtype",
        [
            "O",
            [("a", "O")],
            [("a", "i4"), ("b", [("c", "O")])],
            [("a", "O", (2,))],
            {"names": ["a"], "formats": ["O"], "offsets": [8], "itemsize": 32},
        ],
        ids=str,
    )
    def test_are_not_written(self, dtype: Any) -> None:
        with pytest.raises(ObjectNumpyArrayRejection, match="Python objects"):
            pack_dtype(np.dtype(dtype))

    @pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="numpy 1 has none")
    def test_strings_of_variable_size_are_not_written(self) -> None:
        with pytest.raises(ObjectNumpyArrayRejection, match=r"use x.astype\(str\)"):
            pack_dtype(np.dtypes.StringDType())

    @pytest.mark.parametrize(
        "text",
        [
            "'|O'", "'O'", "O", "|O", "'|O8'", "'O8'", "O8", "'<O'", "'=O4'", "object", "'object'",
            "'object_'", "[('a', '|O')]", "[('a', 'O', (2,))]", "[('', '|O')]",
            "[('a', [('b', '|O')])]", "['O']", "('O', (2,))", "'(2,)O'", "'2O'", "'i4,O'",
            "'i4, O'",
            "{'names': ['a'], 'formats': ['O']}", "'T'", "'StringDType'", "StringDType()",
            "'|T16'", "'\\x4f'", "'O '", "' O'", "b'O'", "'>O8'", "'O,O'", "[(('t', 'a'), '|O')]",
            "[['a', 'O']]", "[('a', [('b', [('c', 'O')])])]", "[('a', '<i4'), ('b', '|O8')]",
            "('O', (1,))", "__import__('os').system('true')", [["a", "|O"]], [["a", [["b", "|O"]]]],
        ],
        ids=str,
    )  # fmt: skip
    def test_are_not_read_however_they_are_spelt(self, text: Any) -> None:
        with pytest.raises((FormatError, ObjectNumpyArrayRejection)):
            unpack_dtype(text)

    @pytest.mark.parametrize(
        "text", ["'|O'", "'O'", "O", "'O8'", "[('a', '|O')]", [["a", [["b", "|O"]]]]], ids=str
    )
    def test_are_refused_by_name(self, text: Any) -> None:
        with pytest.raises(ObjectNumpyArrayRejection, match="Python objects"):
            unpack_dtype(text)

    @pytest.mark.parametrize(
        "logical",
        [
            "O", "|O", "|O8", "object", "T",
            {"base": "O", "shape": [1]}, {"base": {"base": "O", "shape": 1}, "shape": 1},
            {"names": ["a"], "titles": [None], "formats": ["O"], "offsets": [0], "itemsize": 8},
        ],
        ids=str,
    )  # fmt: skip
    def test_are_not_read_as_logical_dtypes_either(self, logical: Any) -> None:
        with pytest.raises((FormatError, ObjectNumpyArrayRejection)):
            unpack_dtype("'|V8'", logical)


@pytest.mark.parametrize(
    "described",
    [
        None, 1, 1.5, True, {}, [], "", " ", "'", "nonsense", "<i3", "'<i16'", "<f1", "i4,f8",
        "3i4", "(2,)i4", "__import__('os')", "np.int32", "'<M8[ns'", "<M8[nonsense]",
        "<M8[999999999999999999D]", "S99999999999", "S9999999999", "U999999999", "V2147483648",
        [[]], [["a"]], [["a", "i4", 1, 1]], [[1, "i4"]], [[None, "i4"]], [["a", None]], ["ab"],
        [["a", "i4", -1]], [["a", "i4", [-1]]], [["a", "i4", 1.5]], [["a", "i4", ["x"]]],
        [["a", "i4", [2**31]]], [["a", "i4", [2**70]]], [["a", "i4", [2**20, 2**20]]],
        [["a", "i4", [1] * 100]], [["a", "V2147483647"], ["b", "V2147483647"]],
        [["a", "i4"], ["a", "i4"]], [[["a", "a"], "i4"]], [[["t", 1], "i4"]], [[[[], "a"], "i4"]],
        "(" * 1000, "[" * 100_000, "-" * 100_000 + "1", "1" * 5000, "[('a', " * 500,
    ],
    ids=lambda described: str(described)[:30],
)  # fmt: skip
def test_values_that_are_not_dtypes(described: Any) -> None:
    if described == []:
        assert unpack_dtype(described) == np.dtype([])
        return
    with pytest.raises(FormatError):
        unpack_dtype(described)


def test_nesting_is_bounded() -> None:
    described: Any = "<i4"
    for _ in range(200):
        described = [["a", described]]
    with pytest.raises(FormatError):
        unpack_dtype(described)
    with pytest.raises(FormatError):
        unpack_dtype(repr(described).replace("['a', ", "('a', ").replace("]]", ")]"))


CRASHING = ["<M8[s/0]", "<m8[Y/00]", "<M8[D/4294967296]", "<m8[D/18446744073709551616]", "<M8[0s]"]


def test_units_that_numpy_divides_by_zero_for() -> None:
    # numpy 1 and 2 crash with SIGFPE, so this runs in a child process.
    code = (
        "import sys, numpy as np\n"
        "from bloscpack.array.dtype import unpack_dtype\n"
        "from bloscpack.exceptions import FormatError\n"
        "for text in sys.argv[1:]:\n"
        "    try:\n"
        "        print(text, unpack_dtype(repr(text)))\n"
        "    except FormatError:\n"
        "        print('refused')\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, *CRASHING],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert run.returncode == 0, f"ended by signal {-run.returncode}"
    assert run.stdout.split("\n")[:-1] == ["refused"] * len(CRASHING)


SOUND = {"names": ["a"], "titles": [None], "formats": ["<i4"], "offsets": [0], "itemsize": 8}


@pytest.mark.parametrize(
    "changes",
    [
        {"names": None}, {"names": "a"}, {"names": []}, {"names": [1]}, {"names": [None]},
        {"names": [[]]}, {"titles": None}, {"titles": []}, {"titles": [[]]}, {"titles": [{}]},
        {"titles": [1]}, {"formats": None}, {"formats": [None]}, {"formats": ["nonsense"]},
        {"formats": [[]]}, {"offsets": None}, {"offsets": [-1]}, {"offsets": [5]},
        {"offsets": [1.5]}, {"offsets": ["0"]}, {"offsets": [None]}, {"offsets": [2**70]},
        {"offsets": [True]},
        {"offsets": [2**31]}, {"offsets": [[0]]}, {"itemsize": 3}, {"itemsize": -1},
        {"itemsize": 2**40}, {"itemsize": 2**70}, {"itemsize": None}, {"itemsize": "8"},
        {"itemsize": 8.0}, {"names": ["a"] * 2, "titles": [None] * 2, "formats": ["<i4"] * 2,
        "offsets": [0, 4]}, {"base": "<i4"}, {"base": "<i4", "shape": "8"},
        {"base": "<i4", "shape": [-2]}, {"base": "<i4", "shape": [2**40]},
        {"base": SOUND, "shape": [2]}, {"base": "<i4", "shape": [2, None]},
    ],
    ids=str,
)  # fmt: skip
def test_values_that_are_not_logical_dtypes(changes: dict[str, Any]) -> None:
    try:
        found = unpack_dtype("'|V8'", SOUND | changes)
    except (FormatError, ObjectNumpyArrayRejection):
        return
    # Unusual but valid: a dtype of the declared size, without objects.
    assert found.itemsize == 8
    assert not found.hasobject


def test_logical_dtype_of_another_size() -> None:
    assert unpack_dtype("'|V8'", SOUND) == np.dtype(
        {"names": ["a"], "formats": ["<i4"], "offsets": [0], "itemsize": 8}
    )
    with pytest.raises(FormatError, match="8 bytes, but dtype has 9"):
        unpack_dtype("'|V9'", SOUND)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
    | st.sampled_from(["<i4", "|O", "a", "V8", *EXTENSIONS[:2]]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(["names", "titles", "formats", "offsets", "itemsize", "base", "shape"]),
        inner,
    ),
    max_leaves=12,
)  # fmt: skip


@given(json_values, json_values)
@example([["a", "S0"]], None)
@example("'|V8'", {**SOUND, "titles": ["a"]})
def test_any_json_gives_a_dtype_or_a_documented_error(described: Any, logical: Any) -> None:
    try:
        found = unpack_dtype(described, logical)
    except (BloscpackError, ImportError):
        return
    assert not found.hasobject
    assert 0 <= found.itemsize < 2**31


@given(st.text(alphabet="[]()',\"<>|=iufcSUVMmOT0123456789 abd:{}\\", max_size=40))
def test_any_text_gives_a_dtype_or_a_documented_error(text: str) -> None:
    try:
        found = unpack_dtype(text)
    except BloscpackError:
        return
    assert not found.hasobject


class TestExtensionTypes:
    """Types of ml_dtypes, such as bfloat16 and float8."""

    @pytest.mark.parametrize("name", EXTENSIONS)
    def test_survive(self, name: str) -> None:
        ml_dtypes = pytest.importorskip("ml_dtypes", reason="the package of these types is absent")
        if not hasattr(ml_dtypes, name):
            pytest.skip(f"this ml_dtypes has no {name}")
        dtype = np.dtype(getattr(ml_dtypes, name))
        text, logical = pack_dtype(dtype)
        assert (unpack_dtype(text).kind, logical) == ("V", name)
        assert round_trip(dtype) == dtype

    def test_survive_in_structures(self) -> None:
        ml_dtypes = pytest.importorskip("ml_dtypes", reason="the package of these types is absent")
        dtype = np.dtype([("a", ml_dtypes.bfloat16, (2,)), ("b", [("c", ml_dtypes.float8_e5m2)])])
        assert round_trip(dtype) == dtype

    @pytest.mark.parametrize("name", EXTENSIONS)
    def test_missing_package_is_named(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        def missing(wanted: str) -> None:
            raise ModuleNotFoundError(f"No module named {wanted!r}", name=wanted)

        monkeypatch.setattr(importlib, "import_module", missing)
        with pytest.raises(ImportError, match="pip install ml_dtypes") as caught:
            unpack_dtype("'|V2'", name)
        assert name in str(caught.value)

    def test_older_package_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(importlib, "import_module", lambda _: json)
        with pytest.raises(ImportError, match="newer ml_dtypes"):
            unpack_dtype("'|V2'", "bfloat16")

    def test_no_other_package_can_be_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def never(wanted: str) -> None:
            raise AssertionError(f"{wanted} was imported")

        monkeypatch.setattr(importlib, "import_module", never)
        for name in ("os", "ml_dtypes", "float64", "numpy.float64", "__class__"):
            with pytest.raises(FormatError):
                unpack_dtype("'|V2'", name)


# numpy 1.26 reads the first as S2, the second as U1 and the third as a zero-byte dtype.
TOO_LARGE = [
    ("'|S4294967298'", None),
    ("'<U1073741825'", None),
    ("'|V4294967296'", None),
    ("'a4294967298'", None),
    ("'<U536870912'", None),
    ("'|S2147483648'", None),
    ("[('a', '|S4294967298')]", None),
    ("[('a', [('b', '|V4294967298')])]", None),
    ("[('a', '|S4294967297', (2,))]", None),
    ("[('a', '<i4', (65536, 65536))]", None),
    ("[('a', '|S2147483647'), ('b', '|S2147483647')]", None),
    ("'|V2'", {**SOUND, "formats": ["|S4294967298"], "itemsize": 2}),
    ("'|V8'", {**SOUND, "offsets": [2**32]}),
    ("'|V8'", {**SOUND, "itemsize": 2**32 + 8}),
    ("'|V2'", {"base": "|S4294967297", "shape": [2]}),
]


@pytest.mark.parametrize(("text", "logical"), TOO_LARGE)
def test_sizes_that_numpy_would_wrap_are_refused(text: str, logical: Any) -> None:
    with pytest.raises(FormatError, match="an item has at most 2147483647"):
        unpack_dtype(text, logical)


@pytest.mark.parametrize("text", ["'|S4294967298'", "[('a', '|S4294967298')]"])
def test_a_file_whose_dtype_numpy_would_wrap(text: str, tmp_path: Path) -> None:
    metadata = {"dtype": text, "shape": [3], "order": "C", "container": "numpy"}
    path = tmp_path / "wrapped.blp"
    bp.pack_bytes_to_file(b"abcdef", path, metadata=metadata)
    for read in (bp.open, bp.load, bp.unpack_ndarray_from_file):
        with pytest.raises(FormatError, match="4294967298 bytes; an item has at most 2147483647"):
            read(path)
    assert not bp.verify(path).ok


def test_the_largest_items_are_those_of_numpy() -> None:
    assert unpack_dtype("'|S2147483647'").itemsize == 2147483647
    assert unpack_dtype("'<U536870911'").itemsize == 2147483644
