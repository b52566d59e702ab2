"""The reference reader of files of bytes and arrays, against files of the original and ours."""

import hashlib
import json
from typing import Any

import numpy as np
import pytest

import bloscpack as bp

from ..conftest import SMALL_VECTORS, Vectors
from ..reference.array_reader import read_array, read_file
from ..reference.refused import RefusedError

ml_dtypes = pytest.importorskip("ml_dtypes")

EXPECTED: dict[str, Any] = json.loads((SMALL_VECTORS / "expected.json").read_text("utf-8"))


@pytest.mark.parametrize("name", EXPECTED)
def test_it_reads_the_small_vectors(name: str) -> None:
    found = read_file((SMALL_VECTORS / name).read_bytes())
    assert hashlib.sha256(found.content).hexdigest() == EXPECTED[name]["payload"]["sha256"]


def test_it_reads_files_of_the_original_as_we_do(vectors: Vectors) -> None:
    for entry in vectors.manifest["vectors"]:
        if entry.get("optional") or entry["file_size"] > 30_000:
            continue
        data = (vectors.folder / entry["file"]).read_bytes()
        found = read_file(data)
        assert hashlib.sha256(found.content).hexdigest() == entry["payload"]["sha256"]
        assert found.metadata == entry["metadata"]
        array = read_array(found)
        if array is not None:
            ours = bp.load(data)
            assert (array.dtype, array.shape) == (ours.dtype, ours.shape), entry["file"]
            assert array.tobytes() == ours.tobytes()


STRUCT = np.dtype(
    {"names": ["b", "a"], "formats": ["<i2", "<i2"], "offsets": [2, 0], "itemsize": 6}
)
ARRAYS = {
    "plain": np.arange(3000.0).reshape(100, 30),
    "fortran": np.asfortranarray(np.arange(600, dtype=">i2").reshape(20, 30)),
    "scalar": np.array(7, "<M8[ns]"),
    "none": np.zeros((0, 4), "S3"),
    "bfloat16": np.arange(64).astype(ml_dtypes.bfloat16),
    "struct": np.zeros(9, [("x", "<f4"), ("y", "u1", (2, 3))]),
    "reordered": np.ones(5, STRUCT),
    "text": np.array(["a", "bcd"]),
}


@pytest.mark.parametrize("checksum", ["crc32", "xxh3_64", "xxh3_128", None])
@pytest.mark.parametrize("name", ARRAYS)
def test_it_reads_what_we_save(name: str, checksum: str | None, tmp_path: Any) -> None:
    path, array = tmp_path / "a.blp", ARRAYS[name]
    bp.save(path, array, checksum=checksum, chunks=None if array.ndim == 0 else 7)
    found = read_file(path.read_bytes())
    read = read_array(found)
    assert read is not None
    assert (read.dtype, read.shape) == (array.dtype, array.shape)
    assert read.tobytes() == array.tobytes()
    assert found.trailer == "valid"


def test_it_refuses_every_cut_and_every_flipped_chunk_byte(tmp_path: Any) -> None:
    path = tmp_path / "a.blp"
    bp.save(path, np.arange(40, dtype="<i4"), chunks=16, checksum="crc32")
    data = path.read_bytes()
    found = read_file(data)
    for end in range(found.end):
        with pytest.raises(RefusedError):
            read_file(data[:end])
    for place in range(found.chunks[0].offset, found.end):
        damaged = bytearray(data)
        damaged[place] ^= 0x10
        with pytest.raises(RefusedError):
            read_file(bytes(damaged))
