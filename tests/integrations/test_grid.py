"""Files whose chunks form a grid, as several files, Zarr arrays, references and Dask arrays."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import UnsupportedError

from ..strategies import AnyArray, assert_same, fill

ARRAY = fill(np.dtype("<i4"), (20, 30, 40), 3)
CHUNKS = 6, 10, 7


@pytest.fixture(params=["C", "F"])
def array(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: Any) -> AnyArray:
    """Return an array, which is also in the file "a" of the working folder."""
    monkeypatch.chdir(tmp_path)
    array = ARRAY.copy(request.param)
    bp.save("a", array, chunks=CHUNKS, attrs={"x": 1})
    return array


def test_pickle(array: AnyArray) -> None:
    with bp.open("a") as a:
        again = pickle.loads(pickle.dumps(a))
    assert_same(again[2:9, 3], array[2:9, 3])
    again.close()


def test_several_files(array: AnyArray) -> None:
    bp.save("many-0", array[:7], chunks=CHUNKS)
    bp.save("many-1", array[7:], chunks=CHUNKS)
    with bp.open_many("many-?") as many:
        assert many.chunks == CHUNKS
        for index in (..., (slice(5, 9), 3), ([1, 17, 3], slice(None), 4), 8):
            assert np.array_equal(many[index], array[index])
        assert np.array_equal(np.stack(list(many)), array)


def test_zarr(array: AnyArray) -> None:
    pytest.importorskip("zarr")
    z = bp.as_zarr("a")
    assert z.chunks == CHUNKS
    for index in (..., (slice(3, 7), slice(None, None, 3), 5), (19, 29, 39)):
        assert np.array_equal(z[index], array[index])
    z.store.close()


class TestReferences:
    @pytest.mark.parametrize("verify", [True, False])
    def test_chunks_that_divide_the_array(self, array: AnyArray, verify: bool) -> None:
        bp.save("b", array, chunks=(5, 10, 8))
        refs = bp.kerchunk_references("b", verify=verify)["refs"]
        assert json.loads(refs["data/.zarray"])["chunks"] == [5, 10, 8]
        with bp.open("b") as b:
            assert len(refs) == b.nchunks + 4
            for index in range(b.nchunks):
                place = [side.start for side in b.chunk_region(index)]
                key = ".".join(str(at // step) for at, step in zip(place, (5, 10, 8), strict=True))
                assert refs[f"data/{key}"][1] == b.chunk_offset(index)

    def test_smaller_chunks_at_the_edges_are_refused(self, array: AnyArray) -> None:
        with pytest.raises(UnsupportedError, match=r"do not divide.*as_zarr"):
            bp.kerchunk_references("a")


class TestDask:
    def test_blocks_are_whole_chunks(self, array: AnyArray) -> None:
        pytest.importorskip("dask")
        from bloscpack.integrations.dask import from_bloscpack

        for block, expected in [(1, CHUNKS), ("10 KiB", None), ("1 GiB", array.shape)]:
            x = from_bloscpack("a", block=block)
            assert np.array_equal(x.compute(), array)
            sizes = tuple(each[0] for each in x.chunks)
            assert expected in (None, sizes)
            for size, step, length in zip(sizes, CHUNKS, array.shape, strict=True):
                assert size % step == 0 or size == length

    def test_save(self, array: AnyArray) -> None:
        pytest.importorskip("dask")
        from bloscpack.integrations.dask import from_bloscpack, save

        order = "F" if array.flags.f_contiguous else "C"
        save(from_bloscpack("a"), "b", chunks=CHUNKS, attrs={"x": 1}, order=order)
        assert Path("a").read_bytes() == Path("b").read_bytes()


def test_parts_choose_the_block_size_as_save_does(tmp_path: Path) -> None:
    line = np.arange(256, dtype="f4")
    big = np.add.outer(np.arange(32, dtype="f4"), np.add.outer(line, line))
    chunks = (16, 128, 128)
    bp.save(tmp_path / "a", big, chunks=chunks)
    with bp.parts(
        tmp_path / "b", shape=big.shape, dtype=big.dtype, chunks=chunks, sample=big
    ) as job:
        job.commit([job.write(one, big[one:two]) for one, two in job.split("1 MiB")])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
