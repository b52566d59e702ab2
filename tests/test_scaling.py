"""Constants of the page about scaling are those that are counted here."""

import gc
import os
import pickle
import re
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.cli.main import main
from bloscpack.format.trailer import _MAX_PAGES_NBYTES, PAGE_CHUNKS, PAGE_SIZE
from bloscpack.storage.coalescing import MAX_REQUESTS
from bloscpack.storage.file import FileSource
from bloscpack.storage.remote.source import HEAD_NBYTES

from . import clientlist
from .pages import DOCS
from .servers import FileServer, running

PAGE = (DOCS / "scaling.md").read_text("utf-8").partition("\n## Time\n")[0]
CONSTANTS = {
    name: int(value.replace(",", ""))
    for name, value in re.findall(r"^\| ([a-z][^|]*) \| ([\d,]+) \| \w{2}", PAGE, re.MULTILINE)
}
KIB = 1 << 10


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("aiohttp", reason="files behind URLs need it")
    with running(FileServer()) as server:
        yield server
        clientlist.close_all()


@contextmanager
def memory() -> Iterator[list[int]]:
    """Append the bytes that are allocated in the block and still held at its end."""
    gc.collect()
    tracemalloc.start()
    found: list[int] = []
    try:
        yield found
        gc.collect()
        found.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()


def put(server, path):
    server.files[f"/{path.name}"] = path.read_bytes()
    return server.url(path.name)


def save_chunks(path, nchunks):
    """Save chunks of one byte, which is not compressed."""
    bp.save(path, np.zeros(nchunks, "u1"), chunks=1, nthreads=1)
    return path


def test_constants_are_found():
    assert len(CONSTANTS) == 14
    assert CONSTANTS["head"] == HEAD_NBYTES
    assert CONSTANTS["requests at a time"] == MAX_REQUESTS
    assert _MAX_PAGES_NBYTES // PAGE_SIZE * PAGE_CHUNKS == 2**30


def test_an_array_of_many_chunks(server, tmp_path):
    few, many = CONSTANTS["chunks in the head"], 30_000
    path = save_chunks(tmp_path / "many.blp", many)
    # Behind its one byte of content.
    assert 0 <= path.stat().st_size / many - 1 - CONSTANTS["chunk overhead"] < 0.1

    for nchunks, requests, nbytes in ((few, 1, HEAD_NBYTES), (many, 2, HEAD_NBYTES + 8 * many)):
        url = put(server, save_chunks(tmp_path / f"{nchunks}.blp", nchunks))
        server.clear()
        bp.open(url).close()
        assert len(server.log) == requests
        assert nbytes - HEAD_NBYTES <= server.nbytes <= nbytes

    small = tmp_path / f"{few}.blp"
    urls = put(server, small), put(server, path)
    for places, name in (((small, path), "local"), (urls, "remote")):
        bp.open(places[0]).close()  # what is imported only once
        with memory() as held:
            first = bp.open(places[0])
            first[few // 2]
        with memory() as held_more:
            second = bp.open(places[1])
            second[many // 2]
        bound = CONSTANTS[f"memory of a {name} handle"]
        assert held[0] <= bound * few + 256 * KIB
        assert 0.8 * bound < (held_more[0] - held[0]) / (many - few) <= bound + 0.1
        server.clear()
        assert len(pickle.dumps(second)) - len(str(places[1])) <= CONSTANTS["pickle of a handle"]
        assert len(server.log) == 0
        first.close()
        second.close()


def test_requests_of_reads(server, tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (48, 1 << 20), "u1")
    bp.save(tmp_path / "long.blp", noise, chunks=1)
    with bp.open(put(server, tmp_path / "long.blp")) as array:
        server.clear()
        array[7]
        assert len(server.log) == 1
        server.clear()
        array[[40, 3, 22, 11]]
        assert len(server.log) == 4
        server.clear()
        array.read_whole()
        assert len(server.log) <= noise.nbytes / CONSTANTS["run"] + 3


def test_many_files(server, tmp_path):
    urls = []
    for number in range(20):
        bp.save(tmp_path / f"part{number}.blp", np.zeros((4, 1000), "u1"))
        urls.append(put(server, tmp_path / f"part{number}.blp"))
    server.clear()
    with bp.open_many(urls) as many:
        assert len(server.log) == len(urls)
        sent = pickle.dumps(many)
    names = sum(map(len, urls))
    assert (len(sent) - names) / len(urls) <= CONSTANTS["pickle of many files"]
    server.clear()
    with pickle.loads(sent) as again:
        assert len(server.log) == 0
        again[33]
        assert len(server.log) == 1


def make_store(path, nclips, frames):
    with bp.frames.create(path, nthreads=1) as store:
        for number in range(nclips):
            store.append(f"clip {number}", frames)


def held_by_store(path, nclips):
    """Return the memory of a store of which all of the index is used, and few of the clips."""
    bp.frames.open(path).close()
    with memory() as held:
        store = bp.frames.open(path)
        for number in range(0, nclips, nclips // 10):
            store[f"clip {number}"][0]
    store.close()
    return held[0]


def test_a_frame_store(server, tmp_path):
    few, many, length = 100, 600, 6
    frames = np.random.default_rng(0).integers(0, 256, (length, 24, 24), "u1")
    make_store(tmp_path / "few.blp", few, frames)
    path = tmp_path / "many.blp"
    make_store(path, many, frames)

    clips, each = CONSTANTS["clip overhead"] * many, CONSTANTS["frame overhead"] * length * many
    overhead = path.stat().st_size - many * frames.nbytes
    assert 0.8 * (clips + each) < overhead <= clips + each

    bound = CONSTANTS["memory of a clip"] + length * CONSTANTS["memory of a frame"]
    held = held_by_store(tmp_path / "few.blp", few)
    assert held <= bound * few + 256 * KIB
    assert (held_by_store(path, many) - held) / (many - few) <= bound

    url = put(server, path)
    server.clear()
    with bp.frames.open(url) as store:
        assert len(server.log) <= CONSTANTS["requests to open"]
        store.read([(f"clip {number}", slice(0, 6, 2)) for number in range(0, many, 60)])
        server.clear()
        store.read([(f"clip {number}", slice(0, 6, 2)) for number in range(7, many, 60)])
        assert len(server.log) <= 10


def made(folder, count):
    """Make an archive, a store, and folders of arrays and of stores, with `count` items each."""
    folder.mkdir()
    large = np.random.default_rng(0).integers(0, 256, 5000, "u1")  # a part of its own
    bp.savez(folder / "ar.blp", {f"m{number}": large for number in range(count)})
    bp.savez(folder / "bundle.blp", {f"m{number}": np.arange(3) for number in range(count)})
    make_store(folder / "st.blp", count, np.zeros((2, 4, 4), "u1"))
    for name in ("f", "s", "npy"):
        (folder / name).mkdir()
    for number in range(count):
        bp.save(folder / "f" / f"{number}.blp", np.arange(3))
        with bp.frames.create(folder / "s" / f"{number}.blp", nthreads=1) as store:
            store.append(f"clip {number}", np.zeros((2, 4, 4), "u1"))
        np.save(folder / "npy" / f"{number}.npy", np.zeros((2, 4, 4), "u1"))
    return folder


def ingested(folder, clips):
    bp.frames.ingest(clips, folder / "out.blp", workers=1, nthreads=1, overwrite=True)


def read_all(path):
    with bp.open(path) as archive:
        for name in archive:
            archive[name][:]


# Opened files and reads for each further item: of an archive or store, or of a folder.
LOOPS = {
    "ls ARCHIVE": (0, 2, lambda d: main(["ls", f"{d}/ar.blp"])),
    "info ARCHIVE": (0, 2, lambda d: main(["info", f"{d}/ar.blp"])),
    "verify ARCHIVE": (0, 8, lambda d: main(["verify", f"{d}/ar.blp"])),
    "cat ARCHIVE": (0, 0, lambda d: main(["cat", f"{d}/ar.blp", "m1", "-o", os.devnull])),
    "read ARCHIVE": (0, 4, lambda d: [bp.load(d / "ar.blp::/m1"), read_all(d / "ar.blp")]),
    "convert ARCHIVE": (0, 10, lambda d: bp.convert(d / "ar.blp", d / "o.npz", overwrite=True)),
    "verify BUNDLE": (0, 0, lambda d: main(["verify", f"{d}/bundle.blp"])),
    "read BUNDLE": (0, 0, lambda d: read_all(d / "bundle.blp")),
    "convert STORE": (0, 3, lambda d: bp.convert(d / "st.blp", d / "o.blp", overwrite=True)),
    "frames ls STORE": (0, 0, lambda d: main(["frames", "ls", f"{d}/st.blp"])),
    "info STORE": (0, 0, lambda d: main(["info", f"{d}/st.blp"])),
    "ls FILES": (1, 4, lambda d: main(["ls", f"{d}/f/*.blp"])),
    "verify -r FOLDER": (1, 7, lambda d: main(["verify", "-r", f"{d}/f"])),
    "open_many": (1, 3, lambda d: bp.open_many(f"{d}/f/*.blp").close()),
    "frames.open of many": (1, 1, lambda d: bp.frames.open(f"{d}/s/*.blp").close()),
    "ingest of a store": (0, 2, lambda d: ingested(d, bp.frames.open(d / "st.blp"))),
    "ingest of a folder": (0, 2, lambda d: ingested(d, bp.frames.listing.arrays(d / "npy"))),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", LOOPS)
def test_each_item_of_a_loop_is_opened_and_read_once(name, tmp_path, monkeypatch, capsys):
    opens, reads, loop = LOOPS[name]
    seen = Counter()
    open_file, read_at = FileSource.__init__, FileSource.read_at

    def spy_open(self, *args, **options):
        seen["opens"] += 1
        open_file(self, *args, **options)

    def spy_read(self, *args, **options):
        seen["reads"] += 1
        return read_at(self, *args, **options)

    counts = []
    for count in (10, 30):
        folder = made(tmp_path / f"{count}", count)
        with monkeypatch.context() as patched:
            patched.setattr(FileSource, "__init__", spy_open)
            patched.setattr(FileSource, "read_at", spy_read)
            seen.clear()
            loop(folder)
            counts.append((seen["opens"], seen["reads"]))
    (few_opens, few_reads), (many_opens, many_reads) = counts
    assert many_opens - few_opens == 20 * opens, counts
    assert 20 * max(0, reads - 1) <= many_reads - few_reads <= 20 * reads + 2, counts
