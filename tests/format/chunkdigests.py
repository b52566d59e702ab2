"""Print digests of array chunks that this build of the kernels encodes, and of what it decodes.

``python -m tests.format.chunkdigests [--portable]``; `.ci/baseline` compares builds by it.
"""

import hashlib
import sys
from random import Random

import numpy as np

from bloscpack._ext import arraychunk as kernel
from bloscpack.array.chunkcodec.chunkencoder import encode_chunk
from bloscpack.format.codec import ChunkHeader, CodecParams, decode_into

from ..fuzz.array_vectors import random_chunk
from .arrays import DTYPES, any_array

NPLANS = 2000
NARRAYS = 600


def digests(chunk: bytes) -> str:
    out = bytearray(ChunkHeader.unpack(chunk).nbytes)
    decode_into(chunk, out)
    return " ".join(hashlib.sha256(data).hexdigest()[:16] for data in (chunk, out))


def main(arguments: list[str]) -> None:
    if arguments == ["--portable"]:
        kernel.limit_vectors(0)
    for seed in range(NPLANS):
        _, chunk = random_chunk(Random(seed), largest=(40, 600, 3000, 20_000)[seed % 4])
        sys.stdout.write(f"plan {seed}: {digests(chunk)}\n")
    for seed in range(NARRAYS):
        array = any_array(seed, DTYPES[seed % len(DTYPES)])
        view = np.ascontiguousarray(array).tobytes()
        chunk = encode_chunk(view, array.dtype, array.shape, CodecParams(typesize=4))
        sys.stdout.write(f"array {seed}: {digests(chunk)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
