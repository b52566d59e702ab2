"""Sizes of JPEG XL images, read from the first bytes of files.

The files were written by pillow-jxl-plugin 1.3.8 (libjxl): zeros of the given size, effort 1,
lossless, with and without a container.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.exceptions import FormatError
from bloscpack.vrs.block.jxl import CONTAINER, image_size

HEADS = {
    (8, 8): "ff0a4140240802010098024b18",
    (16, 8): "ff0ac141240802010098024b18",
    (256, 256): "ff0a7f402408020100b0024b18",
    (264, 256): "ff0af8070e82480802010080020000000328004b18",
    (1, 1): "ff0a001010090802010084024b18",
    (512, 3): "ff0a1000fe834808020100800200",
    (3, 512): "ff0af80f0480480802010080020000",
    (513, 700): "ff0ada1508408048080201008002",
    (640, 480): "ff0af83e10090802010080020000",
    (480, 640): "ff0afa13e03b880408020100800200",
    (1920, 1080): "ff0aba2105910802010080020000",
    (1200, 1000): "ff0a3a1f02910802010080020000",
    (300, 200): "ff0a314124080201008002000000",
    (500, 400): "ff0a786c100908020100800200",
    (200, 100): "ff0a1873100908020100ac024b18",
    (9000, 40): "ff0a38014f460091080201008002",
    (40, 9000): "ff0a3c19019c0091080201008002",
    (300_000, 2): "ff0a0880bf270900100908020100",
    (2, 263_000): "ff0abe1a20004000100908020100",
}
FILE_TYPE = bytes.fromhex("00000014667479706a786c20000000006a786c20")
LEVEL = bytes.fromhex("000000096a786c6c0a")


def box(kind: bytes, content: bytes) -> bytes:
    return (8 + len(content)).to_bytes(4, "big") + kind + content


@pytest.mark.parametrize("size", HEADS)
def test_sizes(size: tuple[int, int]) -> None:
    head = bytes.fromhex(HEADS[size])
    assert image_size(head) == size
    assert image_size(CONTAINER + FILE_TYPE + LEVEL + box(b"jxlc", head)) == size
    assert image_size(CONTAINER + FILE_TYPE + b"\0\0\0\0jxlc" + head) == size
    long = (16 + len(head)).to_bytes(8, "big")
    assert image_size(CONTAINER + FILE_TYPE + b"\0\0\0\1jxlc" + long + head) == size
    parts = b"".join(box(b"jxlp", k.to_bytes(4, "big") + head[k : k + 1]) for k in range(len(head)))
    assert image_size(CONTAINER + FILE_TYPE + LEVEL + parts) == size
    with pytest.raises(FormatError, match="ends within its size"):
        image_size(head[:2])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"\xff\xd8\xff",
        CONTAINER,
        CONTAINER + FILE_TYPE,
        CONTAINER + box(b"jxlc", b""),
    ],
)
def test_data_that_are_not_jxl(data: bytes) -> None:
    with pytest.raises(FormatError, match="JPEG XL"):
        image_size(data)


def test_boxes_that_lead_nowhere() -> None:
    for nbytes in range(2, 8):
        with pytest.raises(FormatError, match=f"a box of {nbytes} bytes"):
            image_size(CONTAINER + nbytes.to_bytes(4, "big") + b"free" + bytes(40))
    with pytest.raises(FormatError):
        image_size(CONTAINER + b"\xff\xff\xff\xfffree" + bytes(40))


@given(st.binary(max_size=80), st.sampled_from([b"", CONTAINER, b"\xff\x0a"]))
def test_any_bytes(data: bytes, front: bytes) -> None:
    try:
        width, height = image_size(front + data)
    except FormatError:
        return
    assert width >= 0
    assert 1 <= height <= 1 << 30
