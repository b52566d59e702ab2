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
    header = zstd.unpack_header(frame)
    assert header.content_nbytes == nbytes
    assert not header.has_checksum
    assert zstd.frame_nbytes(memoryview(frame)) == len(frame)
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
            zstd.frame_nbytes(memoryview(frame)[:length])


def test_a_frame_that_holds_another_size_than_it_declares_is_an_error(library) -> None:
    frame = bytearray(library.compress(bytes(200), 3))
    assert frame[5] == 200  # single segment: the size is the byte behind the descriptor
    for declared in (199, 201):
        frame[5] = declared
        with pytest.raises(FormatError, match="damaged Zstandard frame"):
            library.decompress(frame, declared)


@pytest.mark.parametrize(
    ("front", "size", "content_nbytes", "has_checksum"),
    [
        ("20 00", 6, 0, False),  # single segment, size in one byte
        ("24 07", 6, 7, True),
        ("00 58", 6, None, False),  # a window, no size
        ("40 58 00 00", 8, 256, False),  # two bytes count from 256
        ("83 58 01 02 03 04 ff ff ff ff", 14, 2**32 - 1, False),  # with a dictionary id
        ("e0 00 00 00 00 00 00 00 80", 13, 2**63, False),
    ],
)
def test_headers_of_rfc_8878(front, size, content_nbytes, has_checksum) -> None:
    view = bytes.fromhex("28 b5 2f fd" + front)
    assert zstd.unpack_header(view + b"blocks") == (size, content_nbytes, has_checksum)
    for length in range(len(view)):
        with pytest.raises(FormatError):
            zstd.unpack_header(view[:length])


@pytest.mark.parametrize("front", ["28 b5 2f fe 20 00", "28 b5 2f fd 28 00", "50 2a 4d 18 00 00"])
def test_other_bytes_are_refused(front: str) -> None:
    with pytest.raises(FormatError, match="Zstandard frame"):
        zstd.unpack_header(bytes.fromhex(front))
