"""The original bloscpack 0.16, run by its own interpreter; original.py starts it.

Each line on standard input is a JSON
object with an ``op``; each gives one line of JSON on standard output.
"""

import gc
import hashlib
import json
import os
import sys
from time import perf_counter

import blosc
import numpy

import bloscpack
from bloscpack.file_io import CompressedFPSource


def prepare_pack(array, codec=None, clevel=None):
    """Pack an array to bytes; with the defaults unless a codec is named."""
    content = numpy.load(array)
    args = None
    if codec is not None:
        args = bloscpack.BloscArgs(cname=codec, clevel=clevel)
    return lambda: bloscpack.pack_ndarray_to_bytes(content, blosc_args=args)


def prepare_unpack(packed):
    """Unpack an array from bytes."""
    with open(packed, "rb") as stream:
        content = stream.read()
    return lambda: bloscpack.unpack_ndarray_from_bytes(content)


def prepare_chunks(packed, indices):
    """Decode some chunks of a file, each separately; the result is their bytes, in order.

    The original has no access by index: its source yields the chunks in file order, and those
    before the wanted one are read, but not decoded.
    """

    def read_chunk(index):
        with open(packed, "rb") as stream:
            source = CompressedFPSource(stream)
            for i, (compressed, digest) in enumerate(source):
                if i == index:
                    assert source.checksum_impl(compressed) == digest
                    return blosc.decompress(compressed)
        return None

    return lambda: [read_chunk(index) for index in indices]


def prepare_save(array, path, chunk_nbytes, codec, clevel):
    """Pack an array to a new file; the result is its path."""
    content = numpy.load(array)
    args = bloscpack.BloscArgs(cname=codec, clevel=clevel)

    def save():
        bloscpack.pack_ndarray_to_file(content, path, chunk_size=chunk_nbytes, blosc_args=args)
        return path

    save.path = path
    return save


def prepare_load(path):
    """Unpack an array from a file."""
    return lambda: bloscpack.unpack_ndarray_from_file(path)


def versions(nthreads):
    """Set the threads of C-Blosc and return the versions."""
    blosc.set_nthreads(nthreads)
    return {
        "bloscpack": bloscpack.__version__,
        "c-blosc": blosc.BLOSC_VERSION_STRING,
        "python-blosc": blosc.__version__,
        "numpy": numpy.__version__,
    }


PREPARE = {
    "pack": prepare_pack,
    "unpack": prepare_unpack,
    "chunks": prepare_chunks,
    "save": prepare_save,
    "load": prepare_load,
}


def sha256_of(result):
    """Return the digest of the bytes of a result, or of the array packed in it."""
    if isinstance(result, str):
        result = bloscpack.unpack_ndarray_from_file(result)
    if isinstance(result, list):
        result = b"".join(result)
    if isinstance(result, bytes) and result[:4] == b"blpk":
        result = bloscpack.unpack_ndarray_from_bytes(result)
    data = result.tobytes() if isinstance(result, numpy.ndarray) else result
    return hashlib.sha256(data).hexdigest()


def time_loop(call, count):
    """Return the seconds that `count` calls take, the garbage collector off."""
    gc.disable()
    start = perf_counter()
    for _ in range(count):
        call()
    seconds = perf_counter() - start
    gc.enable()
    return seconds


def time_saves(call, count):
    """Return the seconds of `count` calls that each write a file, removed untimed."""
    seconds = 0.0
    for _ in range(count):
        seconds += time_loop(call, 1)
        os.unlink(call.path)
    return seconds


def main():
    """Answer requests until the input ends."""
    # Output of the library must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    call = None
    for line in sys.stdin:
        request = json.loads(line)
        op = request.pop("op")
        if op == "versions":
            answer = versions(**request)
        elif op == "time":
            loop = time_saves if hasattr(call, "path") else time_loop
            answer = {"seconds": loop(call, request["count"])}
        else:
            call = PREPARE[op](**request)
            result = call()
            answer = {"sha256": sha256_of(result)}
            if hasattr(call, "path"):
                os.unlink(call.path)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
