"""Packing an array to bytes: how near to bare C-Blosc, how far ahead of bloscpack 0.16.

The sizes at which the call, the codec and the memory count: 1 KiB, 80 KB, 128 MB. All contenders
use the same codec, level, byte shuffle and chunks of 1 MiB; both bloscpacks add adler32 checksums,
an offset table and the array's metadata, the defaults of 0.16. bloscpack caches the
metadata of arrays by dtype and shape; "new shape" is the time without that.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

import bare
import blosc
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
def test_pack(case: Case, who: str, race: Callable[..., None]) -> None:
    """Time `pack_ndarray_to_bytes`."""

    def enter(original: Original | None, folder: Path) -> dict[str, Loop]:
        array = case.array()
        args = bp.BloscArgs(cname=case.codec, clevel=case.clevel)

        def pack() -> bytes:
            return bp.pack_ndarray_to_bytes(array, blosc_args=args)

        assert np.array_equal(bp.unpack_ndarray_from_bytes(pack()), array)
        compress = bare.compress_call(array, CHUNK_NBYTES, case.codec, case.clevel)
        assert b"".join(map(blosc.decompress, compress())) == array.tobytes()
        loops = {OURS: loop_of(case.prepared(pack)), BARE: loop_of(compress)}
        if original is not None:
            np.save(folder / "array.npy", array)
            loops[ORIGINAL] = original.loop(
                "pack",
                hashlib.sha256(array).hexdigest(),
                array=str(folder / "array.npy"),
                codec=case.codec,
                clevel=case.clevel,
            )
        return loops

    race(f"pack {case}", who, case.nbytes, enter)
