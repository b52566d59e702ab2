"""Unpacking an array from bytes: how near to bare C-Blosc, how far ahead of bloscpack 0.16.

The counterpart of test_pack.py, on the same arrays. Both bloscpacks unpack the same file and check
the adler32 of every chunk; C-Blosc decodes the same chunks and checks nothing. Each call makes a
new array (or bytes: C-Blosc, of a single chunk). bloscpack caches the meaning of
metadata by their bytes; "new shape" is the time without that.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

import bare
import numpy as np
import pytest
from cases import CASES, CHUNK_NBYTES, Case
from race.original import Original
from race.timing import BARE, ORIGINAL, OURS, Loop, loop_of
from ratios import CONTENDERS
from replay import replay

import bloscpack as bp

pytestmark = pytest.mark.benchmark(timer=replay)


@pytest.mark.parametrize("who", CONTENDERS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_unpack(case: Case, who: str, race: Callable[..., None]) -> None:
    """Time `unpack_ndarray_from_bytes`."""

    def enter(original: Original | None, folder: Path) -> dict[str, Loop]:
        array = case.array()
        args = bp.BloscArgs(cname=case.codec, clevel=case.clevel)
        packed = bp.pack_ndarray_to_bytes(array, blosc_args=args)

        def unpack() -> np.ndarray:
            return bp.unpack_ndarray_from_bytes(packed)

        assert np.array_equal(unpack(), array)
        chunks = bare.compress_call(array, CHUNK_NBYTES, case.codec, case.clevel)()
        decompress = bare.decompress_call(chunks, array, CHUNK_NBYTES)
        assert bytes(decompress()) == array.tobytes()
        loops = {OURS: loop_of(case.prepared(unpack)), BARE: loop_of(decompress)}
        if original is not None:
            (folder / "array.blp").write_bytes(packed)
            loops[ORIGINAL] = original.loop(
                "unpack",
                hashlib.sha256(array).hexdigest(),
                packed=str(folder / "array.blp"),
            )
        return loops

    race(f"unpack {case}", who, case.nbytes, enter)
