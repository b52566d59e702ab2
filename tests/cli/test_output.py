"""Printing hostile names and unusual values."""

import io
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.cli.console import output

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)  # fmt: skip


@given(JSON)
def test_json_is_read_back(value: object) -> None:
    text = output.encode_json(value)
    assert text.isascii()
    assert json.loads(text) == value


def test_numbers_that_json_lacks_become_strings() -> None:
    value = {"a": [float("nan"), float("inf"), -float("inf")], "b": (1, 2)}
    assert output.encode_json(value) == '{"a": ["NaN", "Infinity", "-Infinity"], "b": [1, 2]}'


def test_json_of_any_depth() -> None:
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    assert output.encode_json(value) == "[" * 100_001 + "]" * 100_001


def test_deep_metadata_are_printed_as_json() -> None:
    value: list[object] = []
    for _ in range(2000):
        value = [value]
    assert output.format_metadata(value, 4002) == "[" * 2001 + "]" * 2001


def test_large_metadata_are_printed_as_json() -> None:
    assert output.format_metadata({"k": 1}, 2 << 20) == '{"k": 1}'
    assert output.format_metadata({"k": 1}, 8) == "{'k': 1}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain \u00e9 \u65e5", "plain \u00e9 \u65e5"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\nb\rc\td\x7f\x9b", "a\\nb\\rc\\td\\x7f\\x9b"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("\udcff", "\\udcff"),
        ("\U000e0001", "\\U000e0001"),
    ],
)
def test_printable(text: str, expected: str) -> None:
    assert output.printable(text) == expected
    assert output.printable(text).isprintable()


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0B (0B)"),
        (1, "1.0B (1B)"),
        (1023, "1023.0B (1023B)"),
        (1536, "1.5K (1536B)"),
        (1 << 20, "1.0M (1048576B)"),
        (2**31 - 17, "2.0G (2147483631B)"),
        (3 << 40, "3.0T (3298534883328B)"),
    ],
)
def test_sizes(nbytes: int, text: str) -> None:
    assert output.double_pretty_size(nbytes) == text


def test_a_stream_whose_encoding_lacks_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    output.result("\u00e9 \udc80")
    sys.stdout.flush()
    assert raw.getvalue() == b"\\xe9 \\udc80\n"


def test_closed_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    output.message("discarded")
    with pytest.raises(OSError, match="Bad file descriptor"):
        output.result("text")
