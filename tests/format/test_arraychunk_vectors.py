"""The decoders of array chunks, portable and with vector instructions, agree on every byte.

`.ci/baseline` compares with a build in which the compiler uses no such instructions either.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack._ext import arraychunk as kernel
from bloscpack.array.chunkcodec.chunkencoder import encode_chunk
from bloscpack.exceptions import CodecError, FormatError, UnsupportedError
from bloscpack.format.codec import ChunkHeader, CodecParams, decode_into, decode_range_into

from ..conftest import REPOSITORY
from ..fuzz.array_vectors import plan_fields, random_chunk
from ..fuzz.mutation import damage
from .arrays import DTYPES, any_array

ERRORS = (FormatError, CodecError, UnsupportedError)
CONFORMANCE = sorted((REPOSITORY / "tests" / "conformance").glob("array_auto_*.blp"))
PORTABLE, BEST = 0, kernel.limit_vectors(1)

pytestmark = pytest.mark.skipif(BEST == PORTABLE, reason="the processor has no AVX2 and BMI2")


@contextmanager
def limited(most: int) -> Iterator[None]:
    kernel.limit_vectors(most)
    try:
        yield
    finally:
        kernel.limit_vectors(BEST)


def decoded(chunk: bytes, most: int, part: tuple[int, int] | None = None) -> bytes | None:
    """Return the bytes of a chunk, or those of a part; None if it is refused."""
    with limited(most):
        try:
            start, stop = part or (0, ChunkHeader.unpack(chunk).nbytes)
            out = bytearray(b"\x5a" * (stop - start))
            if part:
                decode_range_into(chunk, start, out)
            else:
                decode_into(chunk, out)
        except ERRORS:
            return None
    return bytes(out)


seeds = st.integers(0, 2**64)


@given(seeds, st.sampled_from([40, 600, 3000, 20_000]))
def test_any_plan(seed: int, largest: int) -> None:
    """Every map, predictor, coder, width, shift, byte order and shape of blocks."""
    rng = Random(seed)
    _, chunk = random_chunk(rng, largest=largest)
    expected = decoded(chunk, PORTABLE)
    assert expected is not None
    assert decoded(chunk, BEST) == expected
    for _ in range(3):
        part = tuple(sorted(rng.choices(range(len(expected) + 1), k=2)))
        assert decoded(chunk, PORTABLE, part) == expected[slice(*part)]
        assert decoded(chunk, BEST, part) == expected[slice(*part)]


@given(seeds)
def test_any_damage(seed: int) -> None:
    """Both refuse it, or both return the same items."""
    rng = Random(seed)
    plan, chunk = random_chunk(rng, largest=600)
    for _ in range(10):
        data = bytearray(chunk)
        damage(rng, data, plan_fields(plan))
        if len(data) >= 16:  # else the wrong size is all that is seen
            data[12:16] = len(data).to_bytes(4, "little")
        if len(data) < 8 or int.from_bytes(data[4:8], "little") <= 1 << 22:
            assert decoded(bytes(data), BEST) == decoded(bytes(data), PORTABLE)


@given(seeds, st.sampled_from(DTYPES))
@example(0, "<f4")
def test_the_encoder_writes_the_same(seed: int, dtype: str) -> None:
    array = any_array(seed, dtype)
    chunks = []
    for most in (PORTABLE, BEST):
        with limited(most):
            chunks.append(
                encode_chunk(array.tobytes(), array.dtype, array.shape, CodecParams(typesize=4))
            )
    assert chunks[0] == chunks[1]
    assert decoded(chunks[0], BEST) == decoded(chunks[0], PORTABLE) == array.tobytes()


@pytest.mark.parametrize("path", CONFORMANCE, ids=[path.stem for path in CONFORMANCE])
def test_files_of_the_conformance_set(path: Path) -> None:
    with limited(PORTABLE):
        expected = bp.load(path)
    assert bp.load(path).tobytes() == expected.tobytes()
