"""Modules of bloscpack 0.16 that programs import, with the calls that these programs make."""

import importlib
import io
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import bloscpack
from bloscpack.abstract_io import pack, unpack
from bloscpack.args import calculate_nchunks
from bloscpack.file_io import CompressedFPSink, CompressedFPSource, PlainFPSink, PlainFPSource

IMAGE = np.arange(24 * 32 * 3, dtype="u1").reshape(24, 32, 3)


def test_imgstore_reads_an_image_from_a_file_object(tmp_path: Path) -> None:
    path = tmp_path / "000000.bpk"
    with pytest.warns(DeprecationWarning, match="pack_ndarray_to_file"):
        bloscpack.pack_ndarray_file(IMAGE, str(path))
    with path.open("rb") as reader:
        image = bloscpack.numpy_io.unpack_ndarray(bloscpack.file_io.CompressedFPSource(reader))
        assert not reader.closed
    assert np.array_equal(image, IMAGE)
    assert image.dtype == IMAGE.dtype


def test_jagged_packs_and_unpacks_by_its_imports(tmp_path: Path) -> None:
    from bloscpack.defaults import DEFAULT_CHUNK_SIZE
    from bloscpack.numpy_io import pack_ndarray_file, unpack_ndarray_file

    path = str(tmp_path / "0.blp")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pack_ndarray_file(
            IMAGE,
            path,
            chunk_size=DEFAULT_CHUNK_SIZE,
            blosc_args=bloscpack.BloscArgs(
                typesize=IMAGE.dtype.itemsize, clevel=5, shuffle=True, cname="lz4hc"
            ),
            bloscpack_args=bloscpack.BloscpackArgs(offsets=False, checksum="None"),
        )
        assert np.array_equal(unpack_ndarray_file(path), IMAGE)


@pytest.mark.parametrize(
    ("module", "home"),
    [
        ("abstract_io", "streams"),
        ("append", "append"),
        ("args", "args"),
        ("defaults", "args"),
        ("file_io", "streams"),
    ],
)
def test_modules_have_the_names_of_their_home(module: str, home: str) -> None:
    alias = importlib.import_module(f"bloscpack.{module}")
    found = importlib.import_module(f"bloscpack.original.{home}")
    names = [name for name in alias.__all__ if hasattr(found, name)]
    assert names
    assert all(getattr(alias, name) is getattr(found, name) for name in names)


def test_arguments_pickled_by_an_older_release_are_read() -> None:
    stored = pickle.dumps(bloscpack.BloscArgs(clevel=3), 0)
    older = stored.replace(b"bloscpack.original.args", b"bloscpack.args")
    assert older != stored
    for each in (stored, older):
        again = pickle.loads(each)
        assert type(again) is bloscpack.args.BloscArgs
        assert again.clevel == 3


def test_modules_are_attributes_after_a_plain_import() -> None:
    code = (
        "import sys, bloscpack\n"
        "assert 'bloscpack.numpy_io' not in sys.modules\n"
        "for name in ('abstract_io', 'defaults', 'file_io', 'numpy_io'):\n"
        "    getattr(bloscpack, name)\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_arrays_go_to_and_from_file_objects() -> None:
    stream = io.BytesIO()
    bloscpack.numpy_io.pack_ndarray(IMAGE, CompressedFPSink(stream), chunk_size=600)
    assert stream.getvalue() == bloscpack.pack_ndarray_to_bytes(IMAGE, chunk_size=600)
    stream.seek(0)
    source = CompressedFPSource(stream)
    assert source.nchunks == 4
    assert source.metadata["shape"] == [24, 32, 3]
    assert source.bloscpack_header.chunk_size == 600
    assert np.array_equal(bloscpack.numpy_io.unpack_ndarray(source), IMAGE)


def test_a_source_starts_at_the_position_of_its_file_object() -> None:
    stream = io.BytesIO(b"in front" + bloscpack.pack_ndarray_to_bytes(IMAGE))
    stream.seek(8)
    source = CompressedFPSource(stream)
    assert np.array_equal(bloscpack.numpy_io.unpack_ndarray(source), IMAGE)


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_bytes_are_packed_and_unpacked_between_file_objects(size: int) -> None:
    content = bytes(range(256)) * 4
    content = content[:size]
    packed, plain = io.BytesIO(), io.BytesIO()
    source = PlainFPSource(io.BytesIO(content))
    pack(source, CompressedFPSink(packed), *calculate_nchunks(size, 300), metadata={"a": 1})
    assert packed.getvalue() == bloscpack.pack_bytes_to_bytes(content, 300, metadata={"a": 1})
    packed.seek(0)
    unpack(CompressedFPSource(packed), PlainFPSink(plain))
    assert plain.getvalue() == content


def test_other_arguments_are_refused_with_the_right_name() -> None:
    with pytest.raises(TypeError, match=r"source must be a bloscpack\.file_io\.CompressedFPSource"):
        bloscpack.numpy_io.unpack_ndarray("a.blp")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"bloscpack\.save and bloscpack\.load take paths"):
        bloscpack.numpy_io.pack_ndarray(IMAGE, io.BytesIO())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"sink must be a bloscpack\.file_io\.PlainFPSink"):
        unpack(CompressedFPSource(io.BytesIO(bloscpack.pack_bytes_to_bytes(b"a"))), None)  # type: ignore[arg-type]


def test_damage_writes_nothing() -> None:
    packed = bytearray(bloscpack.pack_bytes_to_bytes(b"content" * 100, 64))
    packed[-10] ^= 1
    plain = io.BytesIO()
    with pytest.raises(bloscpack.exceptions.ChecksumMismatch):
        unpack(CompressedFPSource(io.BytesIO(bytes(packed))), PlainFPSink(plain))
    assert plain.getvalue() == b""
