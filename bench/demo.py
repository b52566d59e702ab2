"""Show the main job on real input: does it work on this machine, and what does it cost.

``make demo`` runs it. It packs a clip of real frames, reads back one chunk by its offset and a
slice, verifies the file, refuses a damaged copy, and compares size and speed with ``numpy.save``.
``make demo FILE=path`` packs that file too and checks that it comes back. Exits 1 when anything
is wrong.
"""

import argparse
import filecmp
import io
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
import zstandard

import bloscpack as bp
from bloscpack.codec import BLOSC_VERSION
from bloscpack.exceptions import BloscpackError, ChecksumMismatch
from bloscpack.threads import available_cpus

CLIP = Path(__file__).parent / "data" / "bbb_16x240x320x3_u8.npy.zst"
ROUNDS = 7


class WrongResultError(Exception):
    """Something did not come back as it went in."""


def main(argv: list[str] | None = None) -> int:
    """Run the demo; return the exit status."""
    parser = argparse.ArgumentParser(prog="demo.py", description="Pack real input and check it.")
    parser.add_argument("file", nargs="?", type=Path, help="a file of yours to pack as well")
    args = parser.parse_args(argv)
    print(
        f"bloscpack {bp.__version__}, C-Blosc {BLOSC_VERSION}, numpy {np.__version__}, "
        f"Python {platform.python_version()}, {available_cpus()} processors"
    )
    try:
        with tempfile.TemporaryDirectory(prefix="bloscpack-demo-") as folder:
            show_clip(Path(folder))
            if args.file is not None:
                show_file(args.file, Path(folder))
    except (BloscpackError, OSError, WrongResultError) as err:
        print(f"demo: FAILED: {err}", file=sys.stderr)
        return 1
    print("\nEverything came back as it went in.")
    return 0


def require(condition: bool, what: str) -> None:
    """Fail the demo unless `condition` holds.

    Raises
    ------
    WrongResultError
        It does not; `what` says what was wrong.
    """
    if not condition:
        raise WrongResultError(what)


def load_clip() -> np.ndarray:
    """Return the frames that are shipped with the project."""
    with CLIP.open("rb") as stream:
        data = zstandard.ZstdDecompressor().stream_reader(stream).read()
    return np.load(io.BytesIO(data))


def show_clip(folder: Path) -> None:
    """Pack the clip, read it back in parts, verify it, damage a copy, and time it all."""
    frames = load_clip()
    path = folder / "clip.blp"
    bp.save(path, frames, chunks=1, attrs={"title": "Big Buck Bunny", "licence": "CC BY 3.0"})
    print(
        f"\nReal clip: {len(frames)} frames, shape {frames.shape}, {frames.dtype} "
        "(Big Buck Bunny, CC BY 3.0)"
    )
    with bp.open(path) as clip:
        say("packed", f"{sizes(clip.nbytes, clip.cbytes)}, {clip.nchunks} chunks of one frame")
        index = 9
        chunk = np.frombuffer(clip.read_chunk(index), frames.dtype).reshape(frames.shape[1:])
        require(np.array_equal(chunk, frames[index]), f"chunk {index} differs from the frame")
        say("chunk", f"{index} read at byte {clip.chunk_offset(index)}: equals frame {index}")
        part = clip[3:12:2, 60:180, ::4]
        require(np.array_equal(part, frames[3:12:2, 60:180, ::4]), "the slice differs")
        say("slice", f"a[3:12:2, 60:180, ::4] -> {part.shape}: equals numpy's")
    report = bp.verify(path)
    require(report.ok, f"verify found {report.damage}")
    say("verified", f"{report.nchunks} chunks, {report.nbytes} bytes: no damage")
    say("damaged", refusal(path, folder))
    show_stores(frames, folder)
    show_speed(frames, folder)


def show_stores(frames: np.ndarray, folder: Path) -> None:
    """Keep the clip in frame stores, which filter frames before they compress them."""
    for preset in ("fast", "small"):
        path = folder / f"{preset}.blp"
        with bp.frames.create(path, preset=preset) as store:
            store.append("bunny", frames, {"title": "Big Buck Bunny"})
        with bp.frames.open(path) as store:
            require(np.array_equal(store["bunny"][::2], frames[::2]), f"frames of {path} differ")
            every, single = best(store["bunny"].read), best(lambda: store["bunny"][9])
        say(
            "frames",
            f"{sizes(frames.nbytes, path.stat().st_size)}, preset {preset}: lossless, read in "
            f"{every / len(frames) * 1e6:.0f} us a frame, one alone in {single * 1e6:.0f} us",
        )


def refusal(path: Path, folder: Path) -> str:
    """Return what is said of a copy of the file with one bit flipped."""
    damaged = bytearray(path.read_bytes())
    with bp.open(path) as clip:
        damaged[clip.chunk_offset(4) + 1000] ^= 0x10
    copy = folder / "damaged.blp"
    copy.write_bytes(damaged)
    try:
        bp.load(copy)
    except ChecksumMismatch as err:
        return f"one bit flipped in a copy: refused, chunk {err.index} fails its {err.name}"
    raise WrongResultError("a flipped bit went unnoticed")


def show_speed(frames: np.ndarray, folder: Path) -> None:
    """Time writing and reading the clip, beside numpy."""
    blp, npy = folder / "speed.blp", folder / "speed.npy"
    rows = {
        "bloscpack zstd": (lambda: bp.save(blp, frames), lambda: bp.load(blp)),
        "bloscpack lz4": (lambda: bp.save(blp, frames, codec="lz4"), lambda: bp.load(blp)),
        "numpy.save/load": (lambda: save_npy(npy, frames), lambda: np.load(npy)),
    }
    print(
        f"\nSpeed, best of {ROUNDS}, MB/s of array bytes. Timed: the whole call, file opened and "
        "closed;\nwrites to new files in the folder for temporary files, all synced to the disk "
        "(fsync); reads from\nthe page cache; bloscpack checks a crc32 of every chunk, numpy "
        "checks nothing."
    )
    print(f"  {'':18}{'write':>8}{'read':>8}{'bytes in file':>15}{'ratio':>7}")
    for name, (write, read) in rows.items():
        written = frames.nbytes / best(write) / 1e6
        require(np.array_equal(read(), frames), f"{name}: the array read differs")
        nbytes = (npy if "numpy" in name else blp).stat().st_size
        loaded = frames.nbytes / best(read) / 1e6
        print(f"  {name:18}{written:8.0f}{loaded:8.0f}{nbytes:15}{frames.nbytes / nbytes:7.2f}")
    print("  C-Blosc alone finds little in the pixels of a film; frame stores filter them first.")


def save_npy(path: Path, array: np.ndarray) -> None:
    """Save with numpy as durably as `bloscpack.save` does."""
    path.unlink(missing_ok=True)
    with path.open("wb") as stream:
        np.save(stream, array)
        stream.flush()
        os.fsync(stream.fileno())


def best(call: Callable[[], object]) -> float:
    """Return the shortest of some runs, in seconds."""
    times = []
    for _ in range(ROUNDS):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return min(times)


def show_file(path: Path, folder: Path) -> None:
    """Pack and unpack a file of the user's, and compare."""
    packed, back = folder / "yours.blp", folder / "yours"
    start = perf_counter()
    bp.pack_file_to_file(path, packed)
    middle = perf_counter()
    bp.unpack_file_from_file(packed, back)
    end = perf_counter()
    require(filecmp.cmp(path, back, shallow=False), f"{path} came back changed")
    report = bp.verify(packed)
    require(report.ok, f"verify found {report.damage}")
    nbytes = report.nbytes
    print(f"\nYour file: {path}")
    say("packed", sizes(nbytes, packed.stat().st_size) + " (blosclz, the original's defaults)")
    say("unpacked", "equal to the file, byte for byte")
    say(
        "speed",
        f"pack {nbytes / (middle - start) / 1e6:.0f} MB/s, unpack "
        f"{nbytes / (end - middle) / 1e6:.0f} MB/s, one run each, both synced to the disk",
    )


def sizes(nbytes: int, cbytes: int) -> str:
    """Return both sizes and their ratio in words."""
    return f"{nbytes} -> {cbytes} bytes, ratio {nbytes / cbytes:.2f}"


def say(what: str, text: str) -> None:
    """Print one finding."""
    print(f"  {what:10}{text}")


if __name__ == "__main__":
    sys.exit(main())
