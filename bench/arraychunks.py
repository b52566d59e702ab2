"""Size and decoding speed of array chunks next to the chunks of `bp.save`.

For each real array (``shared/data/arrays`` beside the repository, or the folder that
BLOSCPACK_DATA names), the chunks that `bp.save` writes by default and the same items as array
chunks. Sizes are of the stored chunks. Times are processor time of one thread, the least of several
rounds, in which both take turns; every result is compared with the array.

    python bench/arraychunks.py [--rounds N] [--json] [NAME ...]
"""

import argparse
import io
import json
import lzma
import math
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import bloscpack as bp
from bloscpack.array.chunkcodec.chunkencoder import encode_chunk
from bloscpack.container.reader import Container
from bloscpack.format.codec import BLOSC_VERSION, ChunkHeader, CodecParams, decode_into
from bloscpack.storage.file import open_source

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def arrays(names: list[str]) -> list[tuple[str, np.ndarray[Any, Any]]]:
    """Return the arrays and their names."""
    folder = Path(os.environ.get("BLOSCPACK_DATA") or DATA) / "arrays"
    found = []
    for path in sorted(folder.glob("*.npy.xz")):
        name = path.name.removesuffix(".npy.xz")
        if names and name not in names:
            continue
        array = np.load(io.BytesIO(lzma.decompress(path.read_bytes())))
        if name.endswith("bf16"):
            array = array.view(ml_dtypes.bfloat16)
        found.append((name, array))
    return found


def saved_chunks(array: np.ndarray[Any, Any]) -> list[bytes]:
    """Return the chunks that `bp.save` writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "array.blp"
        bp.save(path, array)
        with Container(open_source(path)) as reader:
            return [bytes(reader.fetch(index).data) for index in range(reader.nchunks)]


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def measure(array: np.ndarray[Any, Any], rounds: int) -> dict[str, float]:
    """Return sizes in bytes and times in seconds."""
    blosc = saved_chunks(array)
    content = memoryview(np.ascontiguousarray(array).reshape(-1).view("u1"))
    row = array[:1].nbytes
    ours, encoding, at = [], 0.0, 0
    parts = []
    for chunk in blosc:
        header = ChunkHeader.unpack(chunk)
        part = content[at : at + header.nbytes]
        at += header.nbytes
        shape = (len(part) // row, *array.shape[1:])
        params = CodecParams("zstd", 3, header.shuffle, header.typesize, header.blocksize)
        began = time.process_time()
        ours.append(encode_chunk(part, array.dtype, shape, params))
        encoding += time.process_time() - began
        parts.append(part)
    out = bytearray(len(content))
    view = memoryview(out)

    def decode_all(chunks: list[bytes]) -> None:
        at = 0
        for chunk, part in zip(chunks, parts, strict=True):
            decode_into(chunk, view[at : at + len(part)])
            at += len(part)

    best = [math.inf, math.inf]
    for _ in range(rounds):
        for which, chunks in enumerate((blosc, ours)):
            out[:] = bytes(len(out))
            best[which] = min(best[which], seconds(lambda chunks=chunks: decode_all(chunks)))
            if out != content:
                raise SystemExit("another content was decoded")
    return {
        "nbytes": len(content),
        "blosc": sum(map(len, blosc)),
        "array": sum(map(len, ours)),
        "blosc_seconds": best[0],
        "array_seconds": best[1],
        "encode_seconds": encoding,
    }


def mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = {name: measure(array, args.rounds) for name, array in arrays(args.names)}
    if not found:
        raise SystemExit("no arrays: see BLOSCPACK_DATA")
    if args.json:
        json.dump(found, sys.stdout, indent=1)
        return
    print(f"{platform.machine()}, Python {platform.python_version()}", end=", ")
    print(f"numpy {np.__version__}, C-Blosc {BLOSC_VERSION}, best of {args.rounds}")
    print(
        f"{'array':14} {'ratio':>6} {'size':>6} {'GB/s':>6} {'save':>6} {'speed':>6} {'encode':>7}"
    )
    sizes, speeds = [], []
    for name, row in found.items():
        sizes.append(row["array"] / row["blosc"])
        speeds.append(row["blosc_seconds"] / row["array_seconds"])
        gigabytes = row["nbytes"] / 1e9
        print(
            f"{name:14} {row['nbytes'] / row['array']:6.2f} {sizes[-1]:6.3f} "
            f"{gigabytes / row['array_seconds']:6.2f} {gigabytes / row['blosc_seconds']:6.2f} "
            f"{speeds[-1]:6.2f} {1000 * gigabytes / row['encode_seconds']:4.0f} MB/s"
        )
    print(f"geometric mean of size {mean(sizes):.3f}, of speed {mean(speeds):.2f}")


if __name__ == "__main__":
    main()
