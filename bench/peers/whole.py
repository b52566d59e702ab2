"""Whole arrays: reading, writing, and reading with one thread against all."""

import hashlib
from pathlib import Path

import numpy as np
from harness import BARE, NTHREADS, ORIGINAL, OURS, Loop, loop_of
from races import Case, remove, require, size_of, timed_loop

from peers.bare import Bare
from peers.contender import Contender
from peers.data import LZ4, LZ4_SMALL, SMALL, SPECS, ZSTD, Spec
from peers.race import BARE_OWN_BLOCKS, Bench
from peers.with_bloscpack import Ours

BARE_SYNCED = f"{BARE}, synced"
OUR_CHUNKS = f"{OURS}, the chunks alone"


def race_whole(bench: Bench) -> None:
    """Hold the races."""
    for spec in SPECS:
        race_read(bench, spec)
    bench.found["sizes"] = measure_sizes(bench)
    memory = bench.memory_folder or bench.folder
    for spec in (LZ4, ZSTD, LZ4_SMALL):
        race_write(bench, spec, memory)
    if bench.memory_folder is not None:
        for spec in (LZ4, ZSTD):
            race_synced_write(bench, spec)
    if NTHREADS > 1:
        for spec in (LZ4, ZSTD):
            race_threads(bench, spec)


def measure_sizes(bench: Bench) -> dict[str, dict[str, int]]:
    """Return the bytes stored by each contender for each spec, and those of the chunks alone."""
    sizes = {}
    for spec in SPECS:
        found = {one.name: size_of(bench.path_of(one, spec)) for one in bench.contenders}
        found[OUR_CHUNKS] = sum(map(len, bench.chunks_of(spec)))
        if bench.library is not None:
            bare = Bare(bench.library, spec.chunk_nbytes)
            chunks = bare.encoder(bench.array, spec.codec, spec.clevel).encode(NTHREADS)
            found[BARE_OWN_BLOCKS] = sum(map(len, chunks))
        sizes[str(spec)] = found
    return sizes


def race_read(bench: Bench, spec: Spec) -> None:
    """Open a file, read all into a new array, close it; C-Blosc decodes its chunks from memory."""
    array = bench.array
    case = Case(f"read/{spec}", f"whole read, {spec}", array.nbytes)

    def prepare(contender: Contender) -> dict[str, Loop]:
        path = bench.path_of(contender, spec)
        require(np.array_equal(contender.read(path), array), contender.name, "the array")
        return {contender.name: loop_of(lambda: contender.read(path))}

    others = {}
    if (decoder := bench.decoder(spec)) is not None:
        require(np.array_equal(decoder.decode(NTHREADS), array), BARE, "the array")
        others[BARE] = loop_of(lambda: decoder.decode(NTHREADS))
    if bench.library is not None:
        bare = Bare(bench.library, spec.chunk_nbytes)
        chunks = [*map(bytes, bare.encoder(array, spec.codec, spec.clevel).encode(NTHREADS))]
        own = bare.decoder(chunks, array)
        require(np.array_equal(own.decode(NTHREADS), array), BARE_OWN_BLOCKS, "the array")
        others[BARE_OWN_BLOCKS] = loop_of(lambda: own.decode(NTHREADS))
    if bench.original is not None:
        path = str(bench.path_of(Ours(), spec))
        digest = hashlib.sha256(array).hexdigest()
        others[ORIGINAL] = bench.original.loop("load", digest, path=path)
    bench.race(case, prepare, others, is_plain=spec.chunk_rows == SMALL)


def race_write(bench: Bench, spec: Spec, folder: Path) -> None:
    """Write all to a new file; C-Blosc compresses to memory, and one plain write follows."""
    array = bench.array
    case = Case(f"write/{spec}", f"whole write in memory, {spec}", array.nbytes)

    def prepare(contender: Contender) -> dict[str, Loop]:
        path = folder / f"write, {contender.name}"
        contender.write(path, array, spec)
        require(np.array_equal(contender.read(path), array), contender.name, "the array")
        return {
            contender.name: timed_loop(
                lambda: contender.write(path, array, spec), lambda: remove(path)
            )
        }

    others = bare_writers(bench, spec, folder)
    if bench.original is not None:
        others[ORIGINAL] = bench.original.loop(
            "save",
            hashlib.sha256(array).hexdigest(),
            array=str(bench.folder / "array.npy"),
            path=str(folder / "write, the original"),
            chunk_nbytes=spec.chunk_nbytes,
            codec=spec.codec,
            clevel=spec.clevel,
        )
    bench.race(case, prepare, others, is_plain=spec.chunk_rows == SMALL)
    for entry in folder.glob("write, *"):
        remove(entry)


def race_synced_write(bench: Bench, spec: Spec) -> None:
    """Save to a disk, which ends with fsync; C-Blosc with and without one."""
    array = bench.array
    case = Case(f"synced/{spec}", f"whole write to the disk, {spec}", array.nbytes)

    def prepare(contender: Contender) -> dict[str, Loop]:
        if contender.name != Ours.name:
            raise NotImplementedError("not run: it does not sync")
        path = bench.folder / "synced"
        return {
            contender.name: timed_loop(
                lambda: contender.write(path, array, spec), lambda: remove(path)
            )
        }

    others = bare_writers(bench, spec, bench.folder)
    others.pop(BARE_OWN_BLOCKS, None)
    if bench.library is not None:
        encoder = Bare(bench.library, spec.chunk_nbytes).encoder(
            array, spec.codec, spec.clevel, bench.blocksize(spec)
        )
        path = bench.folder / "synced, C-Blosc"
        others[BARE_SYNCED] = timed_loop(
            lambda: encoder.write(path, NTHREADS, is_synced=True), lambda: remove(path)
        )
    bench.race(case, prepare, others)


def bare_writers(bench: Bench, spec: Spec, folder: Path) -> dict[str, Loop]:
    """Return C-Blosc's loops: with the blocks of our file, and with those it would choose."""
    if bench.library is None:
        return {}
    bare = Bare(bench.library, spec.chunk_nbytes)
    loops = {}
    for name, blocksize in ((BARE, bench.blocksize(spec)), (BARE_OWN_BLOCKS, 0)):
        encoder = bare.encoder(bench.array, spec.codec, spec.clevel, blocksize)
        path = folder / f"write, {name}"
        decoder = bare.decoder([*map(bytes, encoder.encode(NTHREADS))], bench.array)
        require(np.array_equal(decoder.decode(NTHREADS), bench.array), name, "the array")
        loops[name] = timed_loop(
            lambda encoder=encoder, path=path: encoder.write(path, NTHREADS),
            lambda path=path: remove(path),
        )
    return loops


def race_threads(bench: Bench, spec: Spec) -> None:
    """Read all with one thread and with all."""
    array = bench.array
    case = Case(f"threads/{spec}", f"whole read by threads, {spec}", array.nbytes)

    def prepare(contender: Contender) -> dict[str, Loop]:
        if not contender.is_parallel:
            raise NotImplementedError("it reads with one thread")
        path = bench.path_of(contender, spec)
        for nthreads in (1, NTHREADS):
            found = contender.read(path, nthreads)
            require(np.array_equal(found, array), contender.name, "the array")
        return {
            threads_name(contender.name, nthreads): loop_of(
                lambda nthreads=nthreads: contender.read(path, nthreads)
            )
            for nthreads in (1, NTHREADS)
        }

    others = {}
    if (decoder := bench.decoder(spec)) is not None:
        others = {
            threads_name(BARE, nthreads): loop_of(
                lambda nthreads=nthreads: decoder.decode(nthreads)
            )
            for nthreads in (1, NTHREADS)
        }
    bench.race(case, prepare, others, is_plain=True)


def threads_name(name: str, nthreads: int) -> str:
    """Return the name of a contender with a number of threads."""
    return f"{name}, {nthreads} thread{'s' * (nthreads > 1)}"
