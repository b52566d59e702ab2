"""Small files that promise huge arrays: Zarr and xarray allocate no memory for them."""

import struct
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.array.arraymetadata import array_metadata
from bloscpack.exceptions import FormatError
from bloscpack.format.codec import CodecParams, encode
from bloscpack.format.metadata import pack_section

from ..reference.file import assemble
from ..servers import FileServer, running

SIZE = 2**31 - 2**10


@pytest.fixture(params=[1, 10, 1 << 19])
def promising(request: pytest.FixtureRequest) -> bytes:
    """Return a file of some hundred bytes that promises 2 GiB, or 2^50 items of 10 MB."""
    nchunks: int = request.param
    section = pack_section(array_metadata(np.dtype("u1"), (nchunks, SIZE), False), level=1)
    chunk = encode(bytes(1000), CodecParams("zstd", 5))
    data = bytearray(assemble([chunk], offsets=False, section=section))
    struct.pack_into("<iiqq", data, 8, SIZE, SIZE, nchunks, 0)
    return bytes(data) + bytes(20 * nchunks)


def test_zarr(promising: bytes) -> None:
    pytest.importorskip("zarr")
    with pytest.raises(FormatError, match="the header promises"):
        bp.as_zarr(promising)


def test_zarr_behind_a_url(promising: bytes) -> None:
    pytest.importorskip("zarr")
    with running(FileServer()) as http:
        http.files["/a.blp"] = promising
        with pytest.raises(FormatError, match="the header promises"):
            bp.as_zarr(http.url("a.blp"))
        assert len(http.log) <= 2


def test_references(promising: bytes) -> None:
    pytest.importorskip("zarr")
    for verify in (True, False):
        with pytest.raises(FormatError):
            bp.kerchunk_references(promising, url="a.blp", verify=verify)


def test_many(promising: bytes) -> None:
    with bp.open_many([promising, promising]) as many:
        for select in (slice(None), slice(1)):
            with pytest.raises(FormatError, match="the header promises"):
                many[select]


def test_xarray(promising: bytes) -> None:
    xr = pytest.importorskip("xarray")
    from bloscpack.integrations.xarray import BloscpackBackend

    with xr.open_dataset(promising, engine=BloscpackBackend) as dataset:
        for select in (slice(None), slice(0, 1)):
            values: Any = dataset["data"][select]
            with pytest.raises(FormatError, match="the header promises"):
                np.asarray(values)
