"""Typical use of arrays, as type checkers see it (``mypy --strict``); never run."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, assert_type

import numpy as np

import bloscpack as bp

AnyArray = np.ndarray[Any, np.dtype[Any]]


def saving(path: Path, array: np.ndarray[Any, np.dtype[np.float32]]) -> None:
    bp.save(path, array)
    bp.append(path, array, dim="time")
    bp.save(os.fspath(path), [[1, 2], [3, 4]], chunks=1, codec="lz4", clevel=9)
    bp.save(path, array, chunks=(10, 20), shuffle="bit", checksum=None, attrs={"unit": "m"})
    bp.save(path, array, nthreads=2, progress=lambda done, total: print(done, total))  # noqa: T201
    with path.open("wb") as stream:
        bp.save(stream, array)


def loading(path: Path, out: AnyArray) -> None:
    assert_type(bp.load(path), AnyArray)
    assert_type(bp.load(path, out=out, nthreads=4), AnyArray)
    assert_type(bp.load(path, out=bytearray(10)), bytearray)
    assert_type(bp.load(path, on_error="fill", fill_value=np.nan), AnyArray)
    bp.load(b"bytes")
    with path.open("rb") as stream:
        bp.load(stream)


def reading(path: Path, out: AnyArray) -> None:
    with bp.open(path, "r", verify=False, nthreads=1) as stored:
        assert_type(stored, bp.Array)
        assert_type(stored.shape, tuple[int, ...])
        assert_type(stored.dtype, np.dtype[Any])
        assert_type(stored.ndim, int)
        assert_type(stored.size, int)
        assert_type(stored.nbytes, int)
        assert_type(stored.cbytes, int)
        assert_type(stored.cratio, float)
        assert_type(stored.nchunks, int)
        assert_type(stored.chunks, tuple[int, ...] | None)
        assert_type(stored.attrs, dict[str, Any])
        assert_type(stored[0], Any)
        assert_type(stored[1:, ..., None], Any)
        assert_type(stored.read(), AnyArray)
        assert_type(stored.read((0, slice(None)), out=out), AnyArray)
        assert_type(stored.read([3, 1], out=bytearray(10)), bytearray)
        assert_type(stored.read(on_error="skip"), AnyArray)
        assert_type(stored[[3, 1, 1], ::2], Any)
        assert_type(stored.oindex[[3, 1], out > 0], AnyArray)
        assert_type(stored.iter_chunks(on_error="skip"), Iterator[bytes])
        assert_type(stored.read_chunk(0), bytes)
        assert_type(stored.read_chunk_into(0, out), int)
        assert_type(stored.chunk_offset(0), int)
        assert_type(stored.iter_chunks(), Iterator[bytes])
        assert_type(len(stored), int)
        np.asarray(stored)
        for row in stored:
            assert_type(row, Any)
    stored.close()


def several(path: Path, rows: AnyArray) -> None:
    bp.savez(path, rows, {"a": rows}, iter([("b", rows)]), mask=rows > 0, codec="lz4", attrs={})
    with bp.Archive(path, verify="always") as archive:
        assert_type(archive["mask"], bp.Array)
        assert_type(list(archive), list[str])
        assert_type(archive.get("a"), bp.Array | None)
        assert_type(dict(archive.items()), dict[str, bp.Array])
        assert_type(archive.attrs, dict[str, Any])
    with bp.open(path) as opened:
        assert_type(opened["mask"], Any)


def writing(path: Path, rows: AnyArray) -> None:
    with bp.Writer(path, dtype="f4", shape=(None, 3), chunks=100, attrs={"a": 1}) as writer:
        writer.append(rows)
        writer.append([1.0, 2.0, 3.0])
        writer.flush()
        writer.attrs["b"] = 2
        assert_type(writer.shape, tuple[int, ...])
    with bp.open(path, "a") as array:
        assert_type(array.mode, str)
        array.append(rows)
        array.update_attrs({"c": 3})
        array.flush()
        array.refresh()
