"""Files with a trailer and 0.16: it reads them, and its changes make the trailer stale."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp

Oracle = Any

ARRAY = np.arange(6000, dtype="<i4").reshape(300, 20)
CONTENT = ARRAY.tobytes()

READ = """
array = bp.unpack_ndarray_from_bytes(data)
array.dtype.str, array.shape, array.tobytes()
"""
UNPACK = "bp.unpack_bytes_from_bytes(data)"
APPEND = """
file = BytesIO(data)
bp.append.append_fp(file, BytesIO(piece), len(piece))
file.getvalue()
"""


def with_trailer(path: Path, **options: Any) -> bytes:
    bp.pack_bytes_to_file(CONTENT, path, chunk_size=1000, **options)
    assert bp.verify(path, fix=True).trailer == "valid"
    return path.read_bytes()


@pytest.mark.parametrize("checksum", ["crc32", "None", "sha512"])
@pytest.mark.parametrize("chunks", [300, 10, 7, 1])
@pytest.mark.parametrize("stats", [False, True])
def test_saved_arrays_are_read(
    oracle: Oracle, tmp_path: Path, checksum: str, chunks: int, stats: bool
) -> None:
    path = tmp_path / "a.blp"
    bp.save(path, ARRAY, chunks=chunks, checksum=checksum, stats=stats)
    data = path.read_bytes()
    assert bp.verify(data).trailer == "valid"
    assert oracle(READ, data=data) == ("<i4", (300, 20), ARRAY.tobytes())


@pytest.mark.parametrize("metadata", [None, {"unit": "m"}])
def test_fixed_and_recovered_files_are_read(oracle: Oracle, tmp_path: Path, metadata: Any) -> None:
    path = tmp_path / "a.blp"
    assert oracle(UNPACK, data=with_trailer(path, metadata=metadata)) == (CONTENT, metadata)
    assert bp.recover(path, tmp_path / "b.blp").ok
    assert oracle(UNPACK, data=(tmp_path / "b.blp").read_bytes()) == (CONTENT, metadata)


@pytest.mark.parametrize("nbytes", [1, 100, 999, 1000, 1001, 5000])
def test_its_appends_make_the_trailer_stale(oracle: Oracle, tmp_path: Path, nbytes: int) -> None:
    path = tmp_path / "a.blp"
    piece = bytes(range(250)) * 20
    piece = piece[:nbytes]
    path.write_bytes(oracle(APPEND, data=with_trailer(path), piece=piece))
    assert bp.unpack_bytes_from_file(path) == (CONTENT + piece, None)
    report = bp.verify(path)
    assert report.ok, report
    # A long append overwrites all of it, a short one leaves its end at the end of the file.
    assert report.trailer == ("stale" if nbytes <= 100 else "absent")
    assert bool(report.notices) == (nbytes <= 100)
    assert bp.verify(path, fix=True).trailer == "valid"
    report = bp.verify(path)
    assert (report.ok, report.trailer, report.notices) == (True, "valid", [])
    assert oracle(UNPACK, data=path.read_bytes()) == (CONTENT + piece, None)


def test_an_array_it_appended_to_is_recovered_with_its_rows(oracle: Oracle, tmp_path: Path) -> None:
    path, new = tmp_path / "a.blp", tmp_path / "b.blp"
    bp.save(path, ARRAY, chunks=7)
    path.write_bytes(oracle(APPEND, data=path.read_bytes(), piece=ARRAY[:5].tobytes()))
    report = bp.verify(path)  # 0.16 has not updated the shape
    assert "shape" in report.damage[0].what
    assert bp.recover(path, new).ok
    with bp.open(new) as array:
        assert np.array_equal(array[:], np.concatenate((ARRAY, ARRAY[:5])))
        assert array.attrs == {}
