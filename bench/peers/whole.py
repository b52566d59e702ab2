"""Whole arrays: reading, writing, and reading with one thread against all."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from race.races import Case, remove, require_equal, size_of
from race.timing import BARE, NTHREADS, OURS, Loop, loop_of, timed_loop

from peers.bare import BareEncoder
from peers.contenders import Contender
from peers.data import LZ4, LZ4_SMALL, SMALL, SPECS, ZSTD, Spec
from peers.with_bloscpack import Ours

if TYPE_CHECKING:
    from peers.cases import Arrays

BARE_OWN_BLOCKS = f"{BARE}, its own blocks"
OUR_CHUNKS = f"{OURS}, the chunks alone"


def race_whole(races: "Arrays") -> None:
    """Read and write whole arrays, and find their sizes."""
    for spec in SPECS:
        _race_read(races, spec)
    races.found["sizes"] = _measure_sizes(races)
    memory = races.memory_folder if races.on_disk else races.folder
    for spec in (LZ4, ZSTD, LZ4_SMALL):
        _race_write(races, spec, memory)
    if NTHREADS > 1:
        for spec in (LZ4, ZSTD):
            _race_threads(races, spec)


def _measure_sizes(races: "Arrays") -> dict[str, dict[str, int]]:
    """Return the bytes stored by each contender for each spec, and those of the chunks alone."""
    sizes = {}
    for spec in SPECS:
        found = {one.name: size_of(races.path_of(one, spec)) for one in races.contenders}
        found[OUR_CHUNKS] = sum(map(len, races.chunks_of(spec)))
        if races.library is not None:
            chunks = BareEncoder(races.library, races.array, spec).encode(NTHREADS)
            found[BARE_OWN_BLOCKS] = sum(map(len, chunks))
        sizes[str(spec)] = found
    return sizes


def _race_read(races: "Arrays", spec: Spec) -> None:
    """Open a file, read all into a new array, close it; C-Blosc decodes its chunks from memory."""
    array = races.array
    case = Case(f"read/{spec}", f"whole read, {spec}", array.nbytes)

    def prepare(contender: Contender) -> dict[str, Loop]:
        path = races.path_of(contender, spec)
        require_equal(contender.read(path), array, contender.name, "the array")
        return {contender.name: loop_of(lambda: contender.read(path))}

    others = {}
    decoders = {BARE: races.decoder(spec)}
    if races.library is not None:
        chunks = BareEncoder(races.library, array, spec).encode(NTHREADS)
        decoders[BARE_OWN_BLOCKS] = races.decoder(spec, chunks)
    for name, decoder in decoders.items():
        if decoder is not None:
            require_equal(decoder.decode(NTHREADS), array, name, "the array")
            others[name] = loop_of(lambda decoder=decoder: decoder.decode(NTHREADS))
    others |= races.loop_of_original("load", array, path=races.path_of(Ours(), spec))
    races.race(case, prepare, others, is_plain=spec.chunk_rows == SMALL)


def _race_write(races: "Arrays", spec: Spec, folder: Path) -> None:
    """Write all to a new file; C-Blosc compresses to memory, and one plain write follows."""
    array = races.array
    case = Case(f"write/{spec}", f"whole write in memory, {spec}", array.nbytes)

    def prepare(contender: Contender) -> dict[str, Loop]:
        path = folder / f"write, {contender.name}"
        loop = _writing(contender, path, array, spec)
        loop(1)
        require_equal(contender.read(path), array, contender.name, "the array")
        return {contender.name: loop}

    others = _bare_writers(races, spec, folder) | races.loop_of_original(
        "save",
        array,
        array=races.folder / "array.npy",
        path=folder / "write, the original",
        chunk_nbytes=spec.chunk_nbytes,
        codec=spec.codec,
        clevel=spec.clevel,
    )
    races.race(case, prepare, others, is_plain=spec.chunk_rows == SMALL)
    for entry in folder.glob("write, *"):
        remove(entry)


def _writing(contender: Contender, path: Path, array: Any, spec: Spec) -> Loop:
    return timed_loop(lambda: contender.write(path, array, spec), lambda: remove(path))


def _bare_writers(races: "Arrays", spec: Spec, folder: Path) -> dict[str, Loop]:
    """Return C-Blosc's loops: with the blocks of our file, and with those of its own choice."""
    if races.library is None:
        return {}
    loops = {}
    for name, blocksize in ((BARE, races.blocksize(spec)), (BARE_OWN_BLOCKS, 0)):
        encoder = BareEncoder(races.library, races.array, spec, blocksize)
        path = folder / f"write, {name}"
        decoder = races.decoder(spec, encoder.encode(NTHREADS))
        require_equal(decoder.decode(NTHREADS), races.array, name, "the array")
        loops[name] = timed_loop(
            lambda encoder=encoder, path=path: encoder.write(path, NTHREADS),
            lambda path=path: remove(path),
        )
    return loops


def _race_threads(races: "Arrays", spec: Spec) -> None:
    """Read all with one thread and with all."""
    array = races.array
    case = Case(f"threads/{spec}", f"whole read by threads, {spec}", array.nbytes)

    def loops_of(name: str, read: Any) -> dict[str, Loop]:
        for nthreads in (1, NTHREADS):
            require_equal(read(nthreads), array, name, "the array")
        return {
            threads_name(name, nthreads): loop_of(lambda nthreads=nthreads: read(nthreads))
            for nthreads in (1, NTHREADS)
        }

    def prepare(contender: Contender) -> dict[str, Loop]:
        if not contender.is_parallel:
            raise NotImplementedError("it reads with one thread")
        path = races.path_of(contender, spec)
        return loops_of(contender.name, lambda nthreads: contender.read(path, nthreads))

    decoder = races.decoder(spec)
    others = {} if decoder is None else loops_of(BARE, decoder.decode)
    races.race(case, prepare, others, is_plain=True)


def threads_name(name: str, nthreads: int) -> str:
    """Return the label of a contender with a number of threads."""
    return f"{name}, {nthreads} thread{'s' * (nthreads > 1)}"
