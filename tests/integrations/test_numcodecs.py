"""The codec of numcodecs, by which Zarr reads and writes array chunks."""

import json
import pickle
import random
import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import (
    BloscpackError,
    CodecError,
    ObjectNumpyArrayRejection,
    UnsupportedError,
)

from ..conftest import REPOSITORY
from ..entrypoints import entry_points
from ..fuzz.mutation import damage
from ..strategies import AnyArray, assert_same
from .arrays import DTYPES, RECORDS, array_of

numcodecs = pytest.importorskip("numcodecs")
CODEC = {"id": "bloscpack_array_chunk"}
CONFORMANCE = REPOSITORY / "tests" / "conformance"
orders = pytest.mark.parametrize("order", ["C", "F"])


@pytest.fixture(scope="module", autouse=True)
def _installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with entry_points(tmp_path_factory.mktemp("site")):
        yield


@pytest.fixture(scope="module")
def codec() -> Any:
    return numcodecs.get_codec(CODEC)


def smooth(shape: tuple[int, ...], dtype: str = "<i2") -> AnyArray:
    """Return items that array chunks store in fewer bytes than Blosc chunks."""
    places = np.meshgrid(*map(np.arange, shape), indexing="ij")
    noise = np.random.default_rng(3).integers(-3, 4, shape)
    total = np.zeros(shape) + sum((at + 1) * place for at, place in enumerate(places))
    return (total + noise).astype(dtype)


def mixed(shape: tuple[int, ...]) -> AnyArray:
    """Return smooth items; in the middle, runs of noise that Blosc stores in fewer bytes."""
    array = smooth(shape)
    rows = shape[0] // 3
    noise = np.random.default_rng(4).integers(-(1 << 15), 1 << 15, 40, "i2")
    array[rows : 2 * rows] = np.resize(noise, array[rows : 2 * rows].shape)
    return array


def stored_chunks(path: Path) -> list[bytes]:
    """Return the chunks of a file without their digests."""
    with bp.open(path) as array:
        container = array.container
        return [bytes(container.fetch(index).data) for index in range(container.nchunks)]


class TestCodec:
    def test_config(self, codec: Any) -> None:
        assert codec.get_config() == CODEC
        assert numcodecs.get_codec(json.loads(json.dumps(codec.get_config()))) == codec
        assert pickle.loads(pickle.dumps(codec)) == codec

    def test_chunks_are_those_of_save(self, codec: Any, tmp_path: Path) -> None:
        for array in (smooth((60, 40, 50)), smooth((60, 40, 50)).copy("F"), smooth((3, 9))):
            bp.save(tmp_path / "a.blp", array, codec="auto")
            assert [bytes(codec.encode(array))] == stored_chunks(tmp_path / "a.blp")

    @orders
    @pytest.mark.parametrize("dtype", [*DTYPES, *RECORDS])
    def test_every_dtype(self, codec: Any, dtype: str, order: Any) -> None:
        array = array_of(RECORDS.get(dtype, dtype)).copy(order)
        decoded = np.frombuffer(codec.decode(codec.encode(array)), array.dtype)
        assert_same(decoded.reshape(array.shape, order=order), array)

    @pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1, 5)], ids=str)
    def test_small_shapes(self, codec: Any, shape: tuple[int, ...]) -> None:
        array = array_of("<f8", shape)
        assert bytes(codec.decode(codec.encode(array))) == array.tobytes()

    def test_bytes_and_strided_items(self, codec: Any) -> None:
        array = smooth((60, 40, 50))
        for content in (array.tobytes(), memoryview(array), bytearray(array)):
            assert bytes(codec.decode(codec.encode(content))) == array.tobytes()
        strided = array[::2, 3:]
        assert bytes(codec.decode(codec.encode(strided))) == strided.tobytes()
        assert len(codec.encode(array)) < len(codec.encode(array.tobytes()))

    @orders
    def test_out(self, codec: Any, order: Any) -> None:
        array = smooth((60, 40, 50)).copy(order)
        chunk = codec.encode(array)
        out = np.empty_like(array)
        assert codec.decode(np.frombuffer(chunk, "u1"), out) is out
        assert_same(out, array)
        for wrong in (bytearray(array.nbytes - 1), bytearray(array.nbytes + 1)):
            with pytest.raises(CodecError, match="decodes to 240000"):
                codec.decode(chunk, wrong)

    def test_objects_are_refused(self, codec: Any) -> None:
        assert issubclass(ObjectNumpyArrayRejection, TypeError)
        with pytest.raises(TypeError, match="masked"):
            codec.encode(np.ma.masked_equal([1, 2], 2))
        with pytest.raises(ObjectNumpyArrayRejection):
            codec.encode(np.array([1, "a"], object))


class TestHostile:
    def test_truncation_at_every_byte(self, codec: Any) -> None:
        chunk = codec.encode(smooth((9, 80)))
        assert chunk[0] == 0x82
        for size in range(len(chunk)):
            with pytest.raises(BloscpackError):
                codec.decode(chunk[:size])
        with pytest.raises(BloscpackError):
            codec.decode(chunk + b"\0")

    def test_memory_is_not_allocated_for_a_cut_chunk(self, codec: Any) -> None:
        head = struct.pack("<BBBBIII", 0x82, 1, 0, 1, 1 << 28, 1 << 18, 1 << 28)
        tracemalloc.start()
        try:
            with pytest.raises(CodecError, match="got 116"):
                codec.decode(head + bytes(100))
            assert tracemalloc.get_traced_memory()[1] < 1 << 26
        finally:
            tracemalloc.stop()

    def test_mutations(self, codec: Any) -> None:
        """Every chunk gives items or an error of ours, and not more than its size allows."""
        rng = random.Random(5)
        chunks = [codec.encode(each) for each in (smooth((9, 80)), smooth((7, 30), "<f4"))]
        assert {chunk[0] for chunk in chunks} == {0x82}
        fields = [(at, 1) for at in range(100)] + [(at, 4) for at in range(4, 48, 4)]
        for _ in range(2000):
            chunk = bytearray(rng.choice(chunks))
            damage(rng, chunk, fields)
            chunk[12:16] = len(chunk).to_bytes(4, "little")  # else it is refused immediately
            try:
                decoded = codec.decode(chunk)
            except BloscpackError:
                continue
            assert decoded.nbytes <= (8192 if chunk[0] == 0x82 else 65536) * len(chunk) + 65536

    def test_a_later_revision(self, codec: Any) -> None:
        chunk = bytearray(codec.encode(smooth((9, 80))))
        chunk[1] = 2
        with pytest.raises(UnsupportedError, match="revision 2"):
            codec.decode(chunk)


def _stem(path: Path) -> str:
    return path.stem


def group_of(refs: dict[str, Any]) -> Any:
    """Return the Zarr group that reads by references, through JSON."""
    zarr = pytest.importorskip("zarr")
    refs_as_store = pytest.importorskip("kerchunk.utils").refs_as_store
    store = refs_as_store(json.loads(json.dumps(refs)), read_only=True)
    return zarr.open_group(store, mode="r", zarr_format=2)


def check_references(path: Path, array: AnyArray) -> None:
    for verify in (True, False):
        found = group_of(bp.kerchunk_references(path, verify=verify, name="data"))["data"]
        assert (found.shape, found.dtype) == (array.shape, array.dtype)
        assert np.asarray(found[...]).tobytes() == array.tobytes()
    document = json.loads(bp.kerchunk_references(path, name="data")["refs"]["data/.zarray"])
    assert document["compressor"] == CODEC


class TestReferences:
    @orders
    @pytest.mark.parametrize("chunks", [10, 7, 60, (10, 20, 25), (60, 40, 10)], ids=str)
    def test_array_chunks(self, tmp_path: Path, order: Any, chunks: Any) -> None:
        array = smooth((60, 40, 50)).copy(order)
        if order == "F" and isinstance(chunks, int):
            array = array.T.copy().T
        bp.save(tmp_path / "a.blp", array, chunks=chunks, codec="auto")
        assert {chunk[0] for chunk in stored_chunks(tmp_path / "a.blp")} == {0x82}
        check_references(tmp_path / "a.blp", array)

    @pytest.mark.parametrize("chunks", [10, 8, (10, 20, 25)], ids=str)
    def test_mixed_files(self, tmp_path: Path, chunks: Any) -> None:
        array = mixed((60, 40, 50))
        bp.save(tmp_path / "a.blp", array, chunks=chunks, codec="auto")
        assert {chunk[0] for chunk in stored_chunks(tmp_path / "a.blp")} == {2, 0x82}
        check_references(tmp_path / "a.blp", array)

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_every_dtype(self, tmp_path: Path, dtype: str) -> None:
        bp.save(tmp_path / "a.blp", array_of(dtype), chunks=4, codec="auto")
        found = group_of(bp.kerchunk_references(tmp_path / "a.blp"))["data"]
        assert np.asarray(found[...]).tobytes() == array_of(dtype).tobytes()

    @pytest.mark.parametrize("path", sorted(CONFORMANCE.glob("array_auto_*.blp")), ids=_stem)
    def test_conformance_set(self, path: Path) -> None:
        with bp.open(path) as array:
            assert array.chunks is not None
            cut = any(n % k for n, k in zip(array.shape[1:], array.chunks[1:], strict=True))
        if cut:
            with pytest.raises(UnsupportedError, match="do not divide"):
                bp.kerchunk_references(path)
        else:
            check_references(path, bp.load(path))

    def test_edges_of_a_grid_are_refused(self, tmp_path: Path) -> None:
        bp.save(tmp_path / "a.blp", smooth((60, 40)), chunks=(16, 40), codec="auto")
        bp.save(tmp_path / "b.blp", smooth((60, 40)), chunks=(20, 16), codec="auto")
        check_references(tmp_path / "a.blp", smooth((60, 40)))
        with pytest.raises(UnsupportedError, match=r"do not divide.*as_zarr"):
            bp.kerchunk_references(tmp_path / "b.blp")

    def test_short_last_chunk_is_padded(self, tmp_path: Path) -> None:
        bp.save(tmp_path / "a.blp", smooth((60, 40, 50)), chunks=50, codec="auto")
        refs = bp.kerchunk_references(tmp_path / "a.blp")["refs"]
        assert refs["data/1.0.0"].startswith("base64:")
        assert len(refs["data/1.0.0"]) < 10 * 40 * 50 * 2

    def test_damage_raises(self, tmp_path: Path) -> None:
        """A chunk that breaks the format is not read as fill values."""
        path = tmp_path / "a.blp"
        bp.save(path, smooth((60, 40, 50)), chunks=10, codec="auto")
        refs = bp.kerchunk_references(path)
        _, offset, _ = refs["refs"]["data/2.0.0"]
        data = bytearray(path.read_bytes())
        data[offset + 20] ^= 0xFF  # size of the plan
        path.write_bytes(data)
        found = group_of(refs)["data"]
        assert_same(np.asarray(found[:20]), smooth((60, 40, 50))[:20])
        with pytest.raises(BloscpackError):
            found[25]

    def test_xarray(self, tmp_path: Path) -> None:
        xr = pytest.importorskip("xarray")
        refs_as_store = pytest.importorskip("kerchunk.utils").refs_as_store
        array = smooth((60, 40, 50))
        bp.save(tmp_path / "a.blp", array, chunks=10, codec="auto", attrs={"dims": ["t", "y", "x"]})
        store = refs_as_store(bp.kerchunk_references(tmp_path / "a.blp"), read_only=True)
        options = {"consolidated": False, "zarr_format": 2}
        with xr.open_dataset(store, engine="zarr", backend_kwargs=options) as dataset:
            assert np.array_equal(dataset["data"].isel(t=slice(7, 31)), array[7:31])


@orders
def test_zarr_writes_array_chunks(tmp_path: Path, codec: Any, order: Any) -> None:
    zarr = pytest.importorskip("zarr")
    array = smooth((60, 40, 50))
    z = zarr.create_array(
        str(tmp_path / "z"),
        shape=array.shape,
        chunks=(25, 20, 30),
        dtype=array.dtype,
        compressors=codec,
        zarr_format=2,
        order=order,
    )
    z[...] = array
    assert json.loads((tmp_path / "z" / ".zarray").read_text())["compressor"] == CODEC
    assert (tmp_path / "z" / "0.0.0").read_bytes()[0] == 0x82
    assert_same(np.asarray(zarr.open_array(str(tmp_path / "z"), mode="r")[...]), array)
