"""Pickled indices: what GulpIO2 writes is read, nothing is run."""

import contextlib
import io
import os
import pickle
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
from bloscpack.gulp.fileio import ImgInfo, pickle_serializer
from bloscpack.gulp.pickled import dump_pickle, load_pickle

from .conftest import frames


def theirs(module: str = "gulpio2.fileio") -> bytes:
    """Return an index as GulpIO2 pickles it."""
    data = pickle.dumps(OrderedDict(a=OrderedDict(frame_info=[ImgInfo(0, 1, 8)], meta_data=[{}])))
    ours = ImgInfo.__module__.encode()
    name = module.encode()
    old = b"\x8c" + bytes((len(ours),)) + ours
    assert old in data
    # The frame around it has a length, too: without one.
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


@given(st.data())
def test_changed_bytes_give_values_or_an_error(draw: st.DataObject) -> None:
    data = bytearray(theirs())
    for _ in range(draw.draw(st.integers(1, 3))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    with contextlib.suppress(FormatError):
        load_pickle(bytes(data))


def test_a_pickled_chunk(tmp_path: Path) -> None:
    paths = tmp_path / "data_0.gulp", tmp_path / "meta_0.gmeta"
    chunk = GulpChunk(*paths, serializer=pickle_serializer)
    with chunk.open("wb"):
        chunk.append("a", {"n": np.int64(3), "t": (1, 2)}, frames(2, 8, 8))
    chunk = GulpChunk(*paths, serializer=pickle_serializer)
    with chunk.open():
        found, meta = chunk["a"]
    assert (len(found), meta) == (2, {"n": 3, "t": (1, 2)})
    # No name of ours, which GulpIO2 could not import.
    assert b"bloscpack" not in paths[1].read_bytes()


def test_what_could_not_be_read_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="plain values"):
        dump_pickle({"a": Path("x")})
    chunk = GulpChunk(tmp_path / "d", tmp_path / "m", serializer=pickle_serializer)
    with chunk.open("wb"):
        with pytest.raises(TypeError):
            chunk.append("a", {"x": io.BytesIO}, frames(1, 8, 8))
        chunk.append("b", {}, frames(1, 8, 8))
    assert list(pickle_serializer.load(tmp_path / "m")) == ["b"]
