"""Every file written by bloscpack 0.1 to 0.16 reads back as its original content.

The expected values are in the manifest beside the files, made with the original.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.container.reader import Container
from bloscpack.exceptions import NotANumpyArray
from bloscpack.storage.memory import MemorySource

Entry = dict[str, Any]
Describe = Callable[[Any], tuple[str, list[int], str, bytes]]


def sha256(data: Any) -> str:
    return hashlib.sha256(data).hexdigest()


def assert_array(array: Any, vector: Entry, describe: Describe) -> None:
    dtype, shape, order, content = describe(array)
    found = {"dtype": dtype, "shape": shape, "order": order, "sha256_c": sha256(content)}
    # Where the input differs from what 0.16 reads back, the input is correct, too.
    assert found in (vector["array"], vector.get("array_packed"))


def test_the_manifest_is_complete(vector: Entry) -> None:
    data = vector["path"].read_bytes()
    assert len(data) == vector["file_size"]
    assert sha256(data) == vector["file_sha256"]


def test_bytes_from_bytes(vector: Entry) -> None:
    content, metadata = bp.unpack_bytes_from_bytes(vector["path"].read_bytes())
    assert type(content) is bytes
    assert len(content) == vector["payload"]["size"]
    assert sha256(content) == vector["payload"]["sha256"]
    assert metadata == vector["metadata"]


def test_bytes_from_file(vector: Entry) -> None:
    content, metadata = bp.unpack_bytes_from_file(vector["path"])
    assert type(content) is bytes
    assert sha256(content) == vector["payload"]["sha256"]
    assert metadata == vector["metadata"]


def test_trailer_is_absent(vector: Entry) -> None:
    report = bp.verify(vector["path"])
    assert (report.ok, report.trailer) == (True, "absent")
    has_rest = vector["name"] in ("append_last_chunk_shrinks", "append_trailing_garbage")
    assert [notice for notice in report.notices if "bytes follow" in notice] == report.notices
    assert len(report.notices) == has_rest


def test_file_from_file(vector: Entry, tmp_path: Path) -> None:
    out = tmp_path / "out"
    metadata = bp.unpack_file_from_file(str(vector["path"]), str(out))
    assert metadata == vector["metadata"]
    assert sha256(out.read_bytes()) == vector["payload"]["sha256"]


def test_arrays(array_vector: Entry, describe: Describe) -> None:
    path = array_vector["path"]
    for array in (
        bp.unpack_ndarray_from_bytes(path.read_bytes()),
        bp.unpack_ndarray_from_file(path),
        bp.load(path),
    ):
        assert_array(array, array_vector, describe)
        assert type(array) is np.ndarray
        assert array.flags.writeable
    with bp.open(path) as lazy:
        assert_array(np.asarray(lazy), array_vector, describe)
        assert_array(lazy[...], array_vector, describe)


def test_the_original_functions_refuse_bytes_as_an_array(bytes_vector: Entry) -> None:
    path = bytes_vector["path"]
    with pytest.raises(NotANumpyArray):
        bp.unpack_ndarray_from_bytes(path.read_bytes())
    with pytest.raises(NotANumpyArray):
        bp.unpack_ndarray_from_file(path)


def test_bytes_as_an_array(bytes_vector: Entry) -> None:
    array = bp.load(bytes_vector["path"])
    assert array.dtype == np.uint8
    assert array.shape == (bytes_vector["payload"]["size"],)
    assert sha256(array) == bytes_vector["payload"]["sha256"]
    with bp.open(bytes_vector["path"]) as lazy:
        middle = len(array) // 2
        assert lazy[middle : middle + 7].tobytes() == array[middle : middle + 7].tobytes()


def test_header(vector: Entry) -> None:
    with bp.open(vector["path"]) as array:
        header = array.header
    found = {name: getattr(header, name) for name in vector["header"]}
    found["checksum"] = header.checksum.name
    assert found == vector["header"]


def test_metadata_header(vector: Entry) -> None:
    header = Container.open(MemorySource(vector["path"].read_bytes())).front.metadata_header
    if vector["metadata_header"] is None:
        assert header is None
        return
    assert header is not None
    found = {name: getattr(header, name) for name in vector["metadata_header"]}
    # The manifest has bytes as text, the checksum by name and the options as bits.
    found["magic_format"] = header.magic_format.decode()
    found["user_codec"] = header.user_codec.decode()
    found["meta_checksum"] = header.meta_checksum.name
    found["meta_options"] = f"{header.meta_options:08b}"
    assert found == vector["metadata_header"]


def test_offsets(vector: Entry) -> None:
    container = Container.open(MemorySource(vector["path"].read_bytes()))
    if not vector["header"]["offsets"]:
        assert vector["offsets"] == []
        return
    assert list(container.stored.offsets()) == vector["offsets"]


def test_chunks(vector: Entry) -> None:
    nchunks = vector["header"]["nchunks"]
    container = Container.open(MemorySource(vector["path"].read_bytes()))
    stored = [container.fetch(index) for index in range(min(nchunks, 64))]
    assert [
        [chunk.offset, len(chunk.data), chunk.header.nbytes, chunk.header.flags] for chunk in stored
    ] == vector["chunks"]
    with bp.open(vector["path"]) as array:
        assert array.nchunks == nchunks
        assert [array.chunk_offset(index) for index in range(len(stored))] == [
            chunk[0] for chunk in vector["chunks"]
        ]
        content = hashlib.sha256()
        for index in reversed(range(nchunks)):
            assert array.read_chunk(index) == container.read_chunk(index)
        for chunk in array.iter_chunks():
            content.update(chunk)
        assert content.hexdigest() == vector["payload"]["sha256"]
        with pytest.raises(IndexError):
            array.read_chunk(nchunks)


def test_trailing_bytes_are_tolerated(vector: Entry) -> None:
    raw = vector["path"].read_bytes()
    for tail in (b"\0", b"trailing", raw[-40:]):
        content, metadata = bp.unpack_bytes_from_bytes(raw + tail)
        assert sha256(content) == vector["payload"]["sha256"]
        assert metadata == vector["metadata"]


def test_verify(vector: Entry) -> None:
    report = bp.verify(vector["path"])
    assert report.ok, report
    assert report.nchunks == vector["header"]["nchunks"]
    assert report.nbytes == vector["payload"]["size"]


def test_legacy_versions(legacy: Entry, tmp_path: Path) -> None:
    raw = legacy["path"].read_bytes()
    assert sha256(raw) == legacy["file_sha256"]
    out = tmp_path / "out"
    assert bp.unpack_file_from_file(legacy["path"], out) is None
    for content, metadata in (
        bp.unpack_bytes_from_bytes(raw),
        bp.unpack_bytes_from_file(legacy["path"]),
        (out.read_bytes(), None),
    ):
        assert len(content) == legacy["original"]["size"]
        assert sha256(content) == legacy["original"]["sha256"]
        assert metadata == legacy["original"]["metadata"]
    assert bp.verify(legacy["path"]).ok
    with bp.open(legacy["path"]) as array:
        assert array.header.format_version == legacy["format_version"]
        assert array.nbytes == legacy["original"]["size"]
        assert b"".join(array.iter_chunks()) == content
        last = array.read_chunk(array.nchunks - 1)
        assert last == content[-len(last) :]


def test_legacy_files_cannot_be_appended_to(legacy: Entry, tmp_path: Path) -> None:
    path = tmp_path / "legacy.blp"
    path.write_bytes(legacy["path"].read_bytes())
    new = tmp_path / "new"
    new.write_bytes(b"new")
    with pytest.raises(RuntimeError, match="version"):
        bp.append.append(path, new)
    assert path.read_bytes() == legacy["path"].read_bytes()
