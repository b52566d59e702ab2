"""Measure how many frames per second ``blpk view`` serves to a player, beside JPEG.

Clips of 320 x 240 RGB frames are read over HTTP from the server of the page, by a client in the
same process; both share one processor. Stores: lossless with either preset, and JPEG frames. The
pixels received are compared with the clip before anything is timed. With ``--first``, measure the
first picture of a store of more than 1 GB instead, by a new server in a process of its own.
``python bench/playing.py [--first]``
"""

import http.client
import multiprocessing
import os
import platform
import resource
import statistics
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np

import bloscpack as bp
from bloscpack.version import __version__
from bloscpack.view.clips import FRAME_HEADER
from bloscpack.view.server import PageServer
from bloscpack.view.session import Session

NFRAMES, ROUNDS = 240, 5


def make_clip() -> np.ndarray:
    """Return frames of a moving scene with noise, as a camera gives."""
    y, x = np.mgrid[0:240, 0:320]
    rng = np.random.default_rng(0)
    frames = np.empty((NFRAMES, 240, 320, 3), np.uint8)
    for t in range(NFRAMES):
        for c in range(3):
            scene = 128 + 60 * np.sin((x + 2 * t) / (20 + 9 * c)) + 40 * np.cos(y / 17 + t / 30)
            frames[t, ..., c] = scene + rng.normal(0, 2, scene.shape)
    return frames


def receive(server: PageServer) -> bytes:
    """Return all frames of the clip, as the player asks for them."""
    token = parse_qs(urlsplit(server.url).query)["token"][0]
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    headers = {"Authorization": f"Bearer {token}"}
    connection.request("GET", "/api/0/frames?clip=0", headers=headers)
    body = connection.getresponse().read()
    connection.close()
    return body


def measure(path: Path) -> dict[str, float]:
    """Return best and median frames per second of a store."""
    server = PageServer(Session([str(path)], nthreads=1))
    threading.Thread(target=server.run, args=(lambda: None,), daemon=True).start()
    body = receive(server)
    with bp.frames.open(path) as store:
        expected = store["clip"].read()
    nbytes = FRAME_HEADER.size + expected[0].nbytes
    for k, frame in enumerate(expected):
        start = k * nbytes + FRAME_HEADER.size
        assert body[start : start + frame.nbytes] == frame.tobytes()
    rates = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        assert len(receive(server)) == len(body)
        rates.append(NFRAMES / (time.perf_counter() - began))
    return {"best": max(rates), "median": statistics.median(rates), "mb": path.stat().st_size / 1e6}


def first_picture(path: Path) -> dict[str, float]:
    """Return milliseconds from the first request to the first frame, and MB of memory at the end.

    As a browser does, ask for the page, then for the files, the list of clips and the chosen clip,
    then for its frames. It is the first request of the process.
    """
    server = PageServer(Session([str(path)]))
    is_ready = threading.Event()
    threading.Thread(target=server.run, args=(is_ready.set,), daemon=True).start()
    is_ready.wait()
    headers = {"Authorization": f"Bearer {parse_qs(urlsplit(server.url).query)['token'][0]}"}
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    before, busy = time.perf_counter(), time.process_time()
    for address in ("/", "/api/files", "/api/0/clips", "/api/0/clip?clip=0"):
        connection.request("GET", address, headers=headers)
        response = connection.getresponse()
        assert response.status == 200, response.read()
        response.read()
    connection.request("GET", "/api/0/frames?clip=0", headers=headers)
    response = connection.getresponse()
    nbytes = FRAME_HEADER.unpack(response.read(FRAME_HEADER.size))[-1]
    pixels = response.read(nbytes)
    took, busy = time.perf_counter() - before, time.process_time() - busy
    with bp.frames.open(path) as store:
        assert pixels == next(iter(store.values())).read(0).tobytes()
    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {"wall": took * 1e3, "cpu": busy * 1e3, "memory": usage}


def measure_first(clip: np.ndarray) -> None:
    """Print the time to the first picture of a store of 1 GB."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.blp"
        with bp.frames.create(path) as store:
            while path.stat().st_size < 1e9:
                store.append(f"clip-{len(store)}", clip)
            nclips = len(store)
        found = []
        for _ in range(ROUNDS):
            spawned = multiprocessing.get_context("spawn")
            with path.open("rb") as stream:
                os.fsync(stream.fileno())
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            with ProcessPoolExecutor(1, spawned) as process:
                found.append(process.submit(first_picture, path).result())
        print(
            f"bloscpack {__version__}, Python {platform.python_version()}, {platform.machine()}: "
            f"{path.stat().st_size / 1e9:.2f} GB, {nclips} clips, file not in the page cache, "
            f"worst of {ROUNDS} rounds: "
            + ", ".join(
                f"{name} {max(each[name] for each in found):.0f} {unit}"
                for name, unit in (("wall", "ms"), ("cpu", "ms"), ("memory", "MB"))
            )
        )


def main() -> None:
    """Print frames per second of each store."""
    if "--first" in sys.argv:
        measure_first(make_clip())
        return
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    clip = make_clip()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, options in {
            "fast": {"preset": "fast"}, "small": {"preset": "small"}, "jpeg": {"codec": "jpeg"},
        }.items():  # fmt: skip
            path = Path(folder) / f"{name}.blp"
            with bp.frames.create(path, **options) as store:
                store.append("clip", clip)
            results[name] = measure(path)
    print(
        f"bloscpack {__version__}, Python {platform.python_version()}, {platform.machine()}, "
        f"one processor, {NFRAMES} frames of 320 x 240 RGB, {ROUNDS} rounds"
    )
    for name, found in results.items():
        print(
            f"{name:6} {found['best']:7.0f} frames/s best, {found['median']:7.0f} median, "
            f"{found['mb']:6.1f} MB"
        )


if __name__ == "__main__":
    main()
