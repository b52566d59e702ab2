"""Zstandard frames: both libraries, headers of every form, and damage."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from bloscpack.exceptions import FormatError
from bloscpack.vrs.format import zstd

CONTENT = bytes(range(256)) * 40


class AsInStandardLibrary:
    """`bloscpack.vrs.format.zstd` as loaded by Python 3.14, on `compression.zstd` or a backport."""

    def __init__(self, library: ModuleType) -> None:
        source = Path(zstd.__file__).read_text("utf-8")
        source = source.replace("sys.version_info >= (3, 14)", "True")
        source = source.replace("from compression import zstd as _zstd", "pass")
        package = "bloscpack.vrs.format"
        names = {"__name__": package + ".zstd", "__package__": package, "_zstd": library}
        exec(compile(source, "zstd.py", "exec"), names)
        self.compress = names["compress"]
        self.decompress = names["decompress"]
        self.content_nbytes = names["content_nbytes"]
        self.frame_nbytes = names["frame_nbytes"]


@pytest.fixture(params=["zstandard", "compression.zstd"])
def library(request: pytest.FixtureRequest) -> Iterator[object]:
    if request.param == "zstandard":
        if sys.version_info >= (3, 14):
            pytest.skip("Python 3.14 has compression.zstd")
        yield zstd
    elif sys.version_info >= (3, 14):
        yield zstd
    else:
        backport = pytest.importorskip("backports.zstd", reason="compression.zstd for this Python")
        yield AsInStandardLibrary(backport)


@pytest.mark.parametrize("nbytes", [0, 1, 255, 256, 65791, 65792, 200_000])
def test_frames_declare_their_size(library, nbytes: int) -> None:
    content = (CONTENT * 20)[:nbytes]
    frame = library.compress(content, 3)
    assert library.content_nbytes(frame) == nbytes
    assert library.frame_nbytes(memoryview(frame)) == len(frame)
    assert library.frame_nbytes(memoryview(frame + b"next")) == len(frame)
    assert library.decompress(frame, nbytes) == content
    assert library.decompress(frame + b"next", nbytes) == content


@pytest.mark.parametrize("nbytes", [0, len(CONTENT) - 1, len(CONTENT) + 1])
def test_another_size_than_expected_is_an_error(library, nbytes: int) -> None:
    frame = library.compress(CONTENT, 3)
    with pytest.raises(FormatError, match=f"declares {len(CONTENT)} bytes, expected {nbytes}"):
        library.decompress(frame, nbytes)


def test_a_cut_frame_is_an_error_and_never_a_short_result(library) -> None:
    frame = library.compress(CONTENT, 3)
    for length in range(len(frame)):
        with pytest.raises(FormatError):
            library.decompress(frame[:length], len(CONTENT))
        with pytest.raises(FormatError):
            library.frame_nbytes(memoryview(frame)[:length])


def test_a_frame_that_holds_another_size_than_it_declares_is_an_error(library) -> None:
    frame = bytearray(library.compress(bytes(200), 3))
    assert frame[5] == 200  # single segment: the size is the byte behind the descriptor
    for declared in (199, 201):
        frame[5] = declared
        with pytest.raises(FormatError, match="damaged Zstandard frame"):
            library.decompress(frame, declared)


@pytest.mark.parametrize(
    ("front", "content_nbytes"),
    [
        ("20 00", 0),  # single segment, size in one byte
        ("24 07", 7),
        ("00 58", None),  # a window, no size
        ("40 58 00 00", 256),  # two bytes count from 256
        ("83 58 01 02 03 04 ff ff ff ff", 2**32 - 1),  # with a dictionary id
        ("e0 00 00 00 00 00 00 00 80", 2**63),
    ],
)
def test_headers_of_rfc_8878(library, front, content_nbytes) -> None:
    view = bytes.fromhex("28 b5 2f fd" + front)
    assert library.content_nbytes(view + b"blocks") == content_nbytes
    for length in range(len(view)):
        with pytest.raises(FormatError):
            library.content_nbytes(view[:length])


def test_the_checksum_is_part_of_a_frame(library) -> None:
    # One empty last block, and the checksum of no content.
    frame = bytes.fromhex("28 b5 2f fd 24 00 01 00 00 99 e9 d8 51")
    assert library.frame_nbytes(memoryview(frame + b"next")) == len(frame)
    assert library.decompress(frame, 0) == b""


@pytest.mark.parametrize("front", ["28 b5 2f fe 20 00", "28 b5 2f fd 28 00", "50 2a 4d 18 00 00"])
def test_other_bytes_are_refused(library, front: str) -> None:
    for view in (bytes.fromhex(front), bytes.fromhex(front) + bytes(9)):
        with pytest.raises(FormatError, match="Zstandard frame"):
            library.content_nbytes(view)
        with pytest.raises(FormatError, match="Zstandard frame"):
            library.frame_nbytes(memoryview(view))
