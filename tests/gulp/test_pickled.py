"""Pickled indices: those of GulpIO2 are read, and no pickle runs code."""

import contextlib
import io
import os
import pickle
import resource
import subprocess
import sys
import tracemalloc
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.exceptions import FormatError
from bloscpack.gulp import GulpChunk
from bloscpack.gulp.chunk.pickledindex import dump_pickle, load_pickle
from bloscpack.gulp.chunk.textindex import parse_meta_data, scan_index
from bloscpack.gulp.fileio import ImgInfo, pickle_serializer

from .conftest import frames


def theirs(module: str = "gulpio2.fileio") -> bytes:
    """Return an index as pickled by GulpIO2."""
    data = pickle.dumps(OrderedDict(a=OrderedDict(frame_info=[ImgInfo(0, 1, 8)], meta_data=[{}])))
    ours = ImgInfo.__module__.encode()
    name = module.encode()
    old = b"\x8c" + bytes((len(ours),)) + ours
    assert old in data
    # The frame around it also has a length, so it is omitted.
    return b"\x80\x04" + data[11:].replace(old, b"\x8c" + bytes((len(name),)) + name)


@pytest.mark.parametrize("module", ["gulpio2.fileio", "gulpio.fileio"])
def test_gulpio2s_types_are_read(module: str) -> None:
    loaded = load_pickle(theirs(module))
    assert repr(loaded) == repr(
        OrderedDict(a=OrderedDict(frame_info=[ImgInfo(0, 1, 8)], meta_data=[{}]))
    )


class Payload:
    """Runs a function when it is unpickled."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "payload",
    [
        Payload(os.mkdir, "ran"),
        Payload(eval, "__import__('os').mkdir('ran')"),
        Payload(getattr, OrderedDict, "fromkeys"),
        {"a": [Payload(os.mkdir, "ran")]},
        os.mkdir,
        Path("x"),
        complex(1, 2),
        np.int64(3),
        np.arange(3),
    ],
)
def test_nothing_is_run_and_no_other_type_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, payload: Any, protocol: int
) -> None:
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps(payload, protocol=protocol)
    with pytest.raises(FormatError):
        load_pickle(data)
    (tmp_path / "data_0.gulp").touch()
    (tmp_path / "meta_0.gmeta").write_bytes(data)
    with pytest.raises(FormatError, match=r"meta_0\.gmeta"):
        GulpChunk("data_0.gulp", "meta_0.gmeta", serializer=pickle_serializer)
    assert not (tmp_path / "ran").exists()


def test_state_of_an_object_is_refused() -> None:
    # An attribute of this name would replace the method.
    ordered = OrderedDict(a=1)
    ordered.extra = 3  # type: ignore[attr-defined]
    with pytest.raises(FormatError, match="BUILD"):
        load_pickle(pickle.dumps(ordered))


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x04Nr\xff\xff\xff\x7f.",  # LONG_BINPUT: a table of 2**31 entries
        b"\x80\x04\x8d\xff\xff\xff\xff\x00\x00\x00\x00.",  # BINUNICODE8 of 4 GB
        b"\x80\x04\x8b\xff\xff\xff\x7f.",  # LONG4 of 2 GB
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.",  # a frame of 2**63
        b"\x80\x04h\x05.",
        b"\x80\x04.",
        b"\x80\x04N",
        b"",
        b"{}",
    ],
)
def test_damaged_pickles_take_no_memory(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(FormatError):
            load_pickle(data)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def nested(levels: int) -> bytes:
    """Return a pickled index whose only key is a tuple, nested repeatedly."""
    return b"\x80\x04})" + b"\x85" * levels + b"K\x01s."


def doubled(levels: int) -> bytes:
    """Return instructions for a tuple that contains the previous one twice, repeatedly."""
    return b")" + b"".join(b"\x94h%ch%c\x86" % (level, level) for level in range(levels))


def itself(start: bytes, end: bytes) -> bytes:
    return b"\x80\x04" + start + b"\x94" + end + b"."


def colliding(count: int, instruction: bytes) -> bytes:
    """Return a container of integers with equal hashes."""
    numbers = (1 + number * (2**61 - 1) for number in range(8, 8 + count))
    longs = (b"\x8a\x0a" + number.to_bytes(10, "little") for number in numbers)
    return b"\x80\x04" + instruction % b"".join(longs) + b"."


HOSTILE = {
    "a tuple of 500000 levels as a key": nested(500_000),
    "a tuple of 65 levels as a key": nested(65),
    "a list of 500000 levels": b"\x80\x04" + b"]" * 500_000 + b"a" * 499_999 + b".",
    "a tuple of 70 levels": b"\x80\x04)" + b"\x85" * 70 + b".",
    "frozen sets of 500000 levels": b"\x80\x04" + b"(" * 500_000 + b"\x91" * 500_000 + b".",
    "50 tuples with the one before twice": b"\x80\x04" + doubled(50) + b".",
    "a key with the one before twice": b"\x80\x04}" + doubled(50) + b"K\x01s.",
    "a list in itself": itself(b"]", b"h\x00a"),
    "a dict in itself": itself(b"}", b"\x8c\x01ah\x00s"),
    "an OrderedDict in itself": itself(b"ccollections\nOrderedDict\n)R", b"\x8c\x01ah\x00s"),
    "a list that grows where it is shared": itself(b"](", b"h\x00h\x00eh\x00h\x00a"),
    "100000 integers of one hash as keys": colliding(100_000, b"}(%su"),
    "100000 integers of one hash in a set": colliding(100_000, b"\x8f(%s\x90"),
    "100000 integers of one hash in a frozen set": colliding(100_000, b"(%s\x91"),
    "pairs for an OrderedDict": b"\x80\x04ccollections\nOrderedDict\n](K\x01K\x02\x86e\x85R.",
    "an integer of 100000 digits": b"\x80\x04\x8b"
    + (40_000).to_bytes(4, "little")
    + b"\x01" * 40_000
    + b".",
    "a tuple as a key": b"\x80\x04})K\x02s.",
    "a dict of tuples": b"\x80\x04()K\x02d.",
}
# Runs in a separate process: building some of these crashes the interpreter or never ends.
PROBE = """
import sys
from bloscpack.exceptions import FormatError
from bloscpack.gulp.fileio import pickle_serializer
for path in sys.argv[1:]:
    try:
        found = pickle_serializer.load(path)
        repr(found), found == pickle_serializer.load(path)
        print("read")
    except FormatError as err:
        print(str(err))
"""


def confine() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def test_an_index_made_to_crash_or_hang_is_refused_before_it_is_built(tmp_path: Path) -> None:
    for number, data in enumerate(HOSTILE.values()):
        (tmp_path / f"{number}.gmeta").write_bytes(data)
    paths = [str(tmp_path / f"{number}.gmeta") for number in range(len(HOSTILE))]
    run = [sys.executable, "-c", PROBE, *paths]
    done = subprocess.run(run, capture_output=True, text=True, preexec_fn=confine, check=False)
    answers = dict(zip(HOSTILE, done.stdout.splitlines(), strict=False))
    assert done.returncode == 0, done.stderr
    assert [name for name in HOSTILE if "the pickled index" not in answers[name]] == []
    assert "nests values deeper than 64 levels" in answers["a tuple of 500000 levels as a key"]
    assert "the same values over and over" in answers["50 tuples with the one before twice"]
    assert "a key other than text and numbers" in answers["a tuple as a key"]


def test_metadata_shared_by_items_are_read() -> None:
    shared = {"labels": ["a", ("b", 2**70)], "tags": {"x", 3}, 7: "a number as a key"}
    index = OrderedDict((str(n), OrderedDict(meta_data=[shared, shared])) for n in range(2000))
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        if protocol > 3:  # earlier protocols make sets by calling a function
            assert load_pickle(pickle.dumps(index, protocol)) == index
    deep: Any = 1
    for _ in range(60):
        deep = [deep]
    assert load_pickle(pickle.dumps(deep)) == deep


@given(st.data())
def test_changed_bytes_give_values_or_an_error(draw: st.DataObject) -> None:
    data = bytearray(theirs())
    for _ in range(draw.draw(st.integers(1, 3))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    with contextlib.suppress(FormatError):
        load_pickle(bytes(data))


def test_metadata_at_the_limit_of_nesting_are_read_deep_in_calls(tmp_path: Path) -> None:
    text = "[" * 400 + "]" * 400
    (tmp_path / "data_0.gulp").touch()
    index = f'{{"a": {{"frame_info": [], "meta_data": [{text}]}}}}'
    _, [place] = scan_index(index.encode())
    assert place.id == "a"

    def deep(levels: int) -> Any:
        return deep(levels - 1) if levels else parse_meta_data(f"[{text}]")

    # Python 3.12 counts the levels of `json`, which is in C, apart from those of calls.
    with pytest.raises(FormatError, match=r"nested too deeply|no object in meta_data"):
        deep(sys.getrecursionlimit() - 350)


def test_a_pickled_chunk(tmp_path: Path) -> None:
    paths = tmp_path / "data_0.gulp", tmp_path / "meta_0.gmeta"
    chunk = GulpChunk(*paths, serializer=pickle_serializer)
    with chunk.open("wb"):
        chunk.append("a", {"n": np.int64(3), "t": (1, 2)}, frames(2, 8, 8))
    chunk = GulpChunk(*paths, serializer=pickle_serializer)
    with chunk.open():
        found, meta = chunk["a"]
    assert (len(found), meta) == (2, {"n": 3, "t": (1, 2)})
    # None of our names, which GulpIO2 could not import.
    assert b"bloscpack" not in paths[1].read_bytes()


def test_unreadable_values_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="plain values"):
        dump_pickle({"a": Path("x")})
    chunk = GulpChunk(tmp_path / "d", tmp_path / "m", serializer=pickle_serializer)
    with chunk.open("wb"):
        with pytest.raises(TypeError):
            chunk.append("a", {"x": io.BytesIO}, frames(1, 8, 8))
        chunk.append("b", {}, frames(1, 8, 8))
    assert list(pickle_serializer.load(tmp_path / "m")) == ["b"]
