"""The kernel stays within its planes and output, which are placed against pages that may not be
accessed."""

import ctypes
import mmap
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from bloscpack._ext import warp as kernel
from bloscpack.benzina.codec.planes import Planes, decode_rgb, warp_planes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="protects pages as Linux does")

PAGE = mmap.PAGESIZE


@pytest.fixture(params=[0, 1], ids=["general", "avx2"])
def _vectors(request: pytest.FixtureRequest) -> Iterator[None]:
    if kernel.limit_vectors(request.param) < request.param:
        pytest.skip("the processor has no AVX2")
    yield
    kernel.limit_vectors(1)


class Fenced:
    """Arrays between pages that may not be accessed; the memory lives as long as this does."""

    def __init__(self, at_end: bool) -> None:
        self._at_end = at_end
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._rooms: list[Any] = []

    def array(self, shape: tuple[int, ...], dtype: Any) -> Any:
        nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        npages = -(-nbytes // PAGE)
        room = mmap.mmap(-1, (npages + 2) * PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(room))
        for fence in (start, start + (npages + 1) * PAGE):
            assert self._libc.mprotect(ctypes.c_void_p(fence), PAGE, 0) == 0
        self._rooms.append((room, start, npages))
        offset = PAGE + (npages * PAGE - nbytes if self._at_end else 0)
        return np.frombuffer(room, dtype, int(np.prod(shape)), offset).reshape(shape)


@pytest.mark.usefixtures("_vectors")
@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize(
    "size", [(1, 1), (3, 5), (4, 4), (5, 4), (17, 9), (33, 31), (40, 2)], ids=str
)
def test_nothing_beyond_is_touched(size: tuple[int, int], at_end: bool) -> None:
    width, height = size
    fenced = Fenced(at_end)
    half = (height + 1) // 2, (width + 1) // 2
    y, u, v = (fenced.array(shape, np.uint8) for shape in ((height, width), half, half))
    for plane in (y, u, v):
        plane[...] = 99
    planes = Planes(y, u, v, (0, 0, width, height), 1, 5, True)
    decode_rgb(planes, out=fenced.array((height, width, 3), np.uint8))
    for rows, columns in ((1, 1), (3, 8), (5, 17), (9, 40)):
        out = fenced.array((3, rows, columns), np.float32)
        across, down = (width - 1) / max(1, columns - 1), (height - 1) / max(1, rows - 1)
        for homography in (
            (across, 0, 0, 0, down, 0, 0, 0, 1),
            (-across, 0, width - 1, 0, -down, height - 1, 0, 0, 1),
            (0, across * columns / rows, 0, down * rows / columns, 0, 0, 0, 0, 1),
            (across, 0.01, 0, 0.01, down, 0, 0.001, 0, 1),
        ):
            for padding in ("clean", "edge"):
                warp_planes(planes, out, homography, padding=padding)
                warp_planes(planes, out, homography, padding=padding, nearest=True)
