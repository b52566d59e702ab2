"""Show the main jobs on this machine, and their cost beside the usual files.

``make demo`` runs it. It saves an array of sensor readings, reads back one chunk by its offset and
a slice, verifies the file and refuses a damaged copy; then it keeps a real clip in frame stores.
Beside both stand the files people use otherwise, if they are installed: numpy's, HDF5, PNG.
``make demo FILE=path`` packs that file too and checks that it comes back. Exits 1 when anything is
wrong.
"""

import argparse
import filecmp
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from race.arrays import load_array
from race.page import text_table
from race.races import size_of

import bloscpack as bp
from bloscpack.exceptions import BloscpackError, ChecksumMismatch
from bloscpack.format.codec import BLOSC_VERSION
from bloscpack.parallel.threads import available_cpus

STEP = 48  # of the readings, read alone
FRAME = 9  # of the clip, read alone
# A call is repeated this many times, or for this long.
ROUNDS = 7
MAX_SECONDS = 1.0


class WrongResultError(Exception):
    """Something did not come back as it went in."""


def main(argv: list[str] | None = None) -> int:
    """Run the demo; return the exit status."""
    parser = argparse.ArgumentParser(prog="demo.py", description="Pack real input and check it.")
    parser.add_argument("file", nargs="?", type=Path, help="a file of yours to pack as well")
    args = parser.parse_args(argv)
    if args.file is not None and not args.file.is_file():
        print(f"demo: FAILED: {args.file}: not found", file=sys.stderr)
        return 1
    print(
        f"bloscpack {bp.__version__}, C-Blosc {BLOSC_VERSION}, numpy {np.__version__}, "
        f"Python {platform.python_version()}, {available_cpus()} processors\n"
        "Tables: write and read in MB/s of array bytes, best of calls that open, work, close;\n"
        "writes are synced to the disk, reads come from the page cache. bloscpack, HDF5 and npz\n"
        "compare a checksum of all they read; numpy.save reads one item by a memory map."
    )
    try:
        with tempfile.TemporaryDirectory(prefix="bloscpack-demo-") as folder:
            show_array(Path(folder))
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
        It does not; `what` describes the fault.
    """
    if not condition:
        raise WrongResultError(what)


def make_readings() -> np.ndarray:
    """Return temperatures of a grid of sensors over four days, made by a formula.

    Places differ smoothly, days repeat, sensors have noise of 0.05 K and report steps of 0.01 K.
    """
    rng = np.random.default_rng(15)
    hours, y, x = np.ogrid[0:96, 0:1:240j, 0:1:256j]
    field = 288 - 25 * y + 6 * np.sin(9 * x + 3 * y) * np.cos(7 * y)
    day = 5 * np.sin((hours - 9 + 2 * x) * (2 * np.pi / 24)) * (1.2 - y)
    noise = rng.normal(0, 0.05, (96, 240, 256))
    return np.round(field + day + noise, 2).astype(np.float32)


def show_array(folder: Path) -> None:
    """Save the readings, read them back in parts, verify them, damage a copy, and time it all."""
    readings = make_readings()
    path = folder / "readings.blp"
    bp.save(path, readings, chunks=4, attrs={"unit": "K"})
    print(
        f"\nAn array of sensor readings: {readings.shape} {readings.dtype}, in K, steps of 0.01 "
        "(made by a formula)"
    )
    with bp.open(path) as a:
        say("saved", f"{sizes(a.nbytes, a.cbytes)}, {a.nchunks} chunks of 4 steps")
        chunk = np.frombuffer(a.read_chunk(4), readings.dtype)
        require(np.array_equal(chunk, readings[16:20].ravel()), "chunk 4 differs")
        say("chunk", f"4 read at byte {a.chunk_offset(4)}: equals steps 16 to 19")
        part = a[3:90:2, 60:180, ::4]
        require(np.array_equal(part, readings[3:90:2, 60:180, ::4]), "the slice differs")
        say("slice", f"a[3:90:2, 60:180, ::4] -> {part.shape}: equals numpy's")
    report = bp.verify(path)
    require(report.ok, f"verify found {report.damage}")
    say("verified", f"{report.nchunks} chunks, {report.nbytes} bytes: no damage")
    say("damaged", refusal(path, folder))
    compare(readings, folder, ARRAY_KEEPERS, STEP, "one step")


def refusal(path: Path, folder: Path) -> str:
    """Return how a copy of the file with one bit flipped is refused."""
    damaged = bytearray(path.read_bytes())
    with bp.open(path) as array:
        damaged[array.chunk_offset(4) + 1000] ^= 0x10
    copy = folder / "damaged.blp"
    copy.write_bytes(damaged)
    try:
        bp.load(copy)
    except ChecksumMismatch as err:
        return f"one bit flipped in a copy: refused, chunk {err.index} fails its {err.name}"
    raise WrongResultError("a flipped bit went unnoticed")


def show_clip(folder: Path) -> None:
    """Keep the clip in frame stores, which filter frames before they compress them."""
    frames = load_array()
    print(
        f"\nA real clip: {len(frames)} frames, {frames.shape} {frames.dtype} "
        "(Big Buck Bunny, CC BY 3.0), all lossless"
    )
    compare(frames, folder, FRAME_KEEPERS, FRAME, "one frame")


@dataclass(frozen=True, slots=True)
class Keeper:
    """One way to keep an array: a file, or a folder of files.

    `read_one` reads one item of the first axis from a file that was not open.
    """

    name: str
    suffix: str
    write: Callable[[Path, np.ndarray], object]
    read: Callable[[Path], Any]
    read_one: Callable[[Path, int], Any]
    library: str = "numpy"


def save_npy(path: Path, array: np.ndarray) -> None:
    with path.open("wb") as stream:
        np.save(stream, array)
    sync(path)


def save_npz(path: Path, array: np.ndarray) -> None:
    np.savez_compressed(path, a=array)
    sync(path)


def load_npz(path: Path, index: Any = ()) -> Any:
    with np.load(path) as found:
        return found["a"][index]


def read_item(path: Path, index: int) -> Any:
    with bp.open(path) as array:
        return array[index]


def save_h5(path: Path, array: np.ndarray) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=array, compression="gzip", shuffle=True, fletcher32=True)
    sync(path)


def load_h5(path: Path, index: Any = ()) -> Any:
    import h5py

    with h5py.File(path) as file:
        return file["a"][index]


def save_pngs(path: Path, array: np.ndarray) -> None:
    from PIL import Image

    path.mkdir(exist_ok=True)
    for index, frame in enumerate(array):
        Image.fromarray(frame).save(path / f"{index}.png")
        sync(path / f"{index}.png")


def load_png(path: Path, index: int) -> np.ndarray:
    from PIL import Image

    with Image.open(path / f"{index}.png") as image:
        return np.array(image)


def load_pngs(path: Path) -> np.ndarray:
    return np.stack([load_png(path, index) for index in range(len(list(path.iterdir())))])


def save_frames(preset: str, path: Path, array: np.ndarray) -> None:
    with bp.frames.create(path, preset=preset, overwrite=True) as store:
        store.append("bunny", array, {"title": "Big Buck Bunny"})


def load_frames(path: Path, index: Any = slice(None)) -> Any:
    with bp.frames.open(path) as store:
        return store["bunny"][index]


def map_npy(path: Path, index: int) -> Any:
    return np.load(path, mmap_mode="r")[index]


_NUMPY = (
    Keeper("numpy.save", ".npy", save_npy, np.load, map_npy),
    Keeper("savez_compressed", ".npz", save_npz, load_npz, load_npz),
)
ARRAY_KEEPERS = (
    Keeper("bloscpack", ".blp", bp.save, bp.load, read_item),
    *_NUMPY,
    Keeper("h5py gzip shuffle", ".h5", save_h5, load_h5, load_h5, "h5py"),
)
FRAME_KEEPERS = (
    *(
        Keeper(
            f"frame store, {preset}",
            f".{preset}.blp",
            partial(save_frames, preset),
            load_frames,
            load_frames,
        )
        for preset in ("fast", "small")
    ),
    Keeper("PNG files, Pillow", ".png", save_pngs, load_pngs, load_png, "PIL"),
    *_NUMPY,
)


def compare(
    array: np.ndarray, folder: Path, keepers: Iterable[Keeper], index: int, one: str
) -> None:
    """Check the arrays that each way returns, then time it, and print a table."""
    lines = [("", "bytes", "ratio", "write", "read", one)]
    for keeper in keepers:
        if find_spec(keeper.library) is None:
            print(f"  (not compared with {keeper.library}: it is not installed)")
            continue
        path = folder / f"{len(array)}{keeper.suffix}"
        write = partial(keeper.write, path, array)
        write()
        require(np.array_equal(keeper.read(path), array), f"{keeper.name}: what was read differs")
        found = keeper.read_one(path, index)
        require(np.array_equal(found, array[index]), f"{keeper.name}: {one} differs")
        nbytes = size_of(path)
        speeds = (array.nbytes / best(call) / 1e6 for call in (write, partial(keeper.read, path)))
        single = best(lambda: np.array(keeper.read_one(path, index))) * 1e3  # noqa: B023 - now
        written = [f"{speed:.0f}" for speed in speeds]
        ratio = f"{array.nbytes / nbytes:.2f}"
        lines.append((keeper.name, str(nbytes), ratio, *written, f"{single:.2f} ms"))
    print("\n".join(f"  {line}" for line in text_table(lines)))


def sync(path: Path) -> None:
    """Sync a file to the disk, as `bloscpack.save` does."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def best(call: Callable[[], object]) -> float:
    """Return the shortest of some runs, in seconds."""
    times: list[float] = []
    while len(times) < ROUNDS and sum(times) < MAX_SECONDS:
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
