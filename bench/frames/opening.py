"""Opening: a store of a million frames, beside a Gulp directory of as many, in fresh processes."""

import json
import subprocess
import sys
from pathlib import Path
from statistics import median

import numpy as np
from races import remove, require

import bloscpack as bp
from bloscpack.media import image
from frames.contender import GULPIO2
from frames.opening_worker import STATUS
from frames.race import Bench

OURS, OURS_GULP = "bloscpack, frame store", "bloscpack, Gulp directory"
BENCH = Path(__file__).resolve().parents[1]
_FRAMES_PER_CLIP = 100
_CLIPS_PER_CHUNK = 100  # of a Gulp directory, the default
_FRAME = 50
_TIMEOUT = 60  # seconds


def measure_opening(bench: Bench) -> None:
    """Find milliseconds and resident bytes of each round, by who opens."""
    if not STATUS.exists():
        bench.absent["resident memory"] = f"no {STATUS}"
        return
    bench.say("writing a million tiny frames")
    images = _tiny_images()
    ids = [f"videos/clip_{number:06d}" for number in range(bench.setting.nindexed)]
    store, folder = bench.folder / "million.blp", bench.folder / "million"
    write_store(store, ids, images)
    write_gulp(folder, ids, images)
    places = {OURS: store, OURS_GULP: folder}
    if bench.has(GULPIO2):
        places[GULPIO2] = folder
    bench.say("opening them")
    key = ids[len(ids) * 7 // 9]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in places}
    for _ in range(min(5, bench.setting.nrounds)):
        for name, path in places.items():
            library = "gulpio2" if name == GULPIO2 else "bloscpack"
            command = [sys.executable, "-m", "frames.opening_worker", library, str(path), key]
            done = subprocess.run(
                [*command, str(_FRAME)],
                cwd=BENCH,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT,
                check=True,
            )
            one = json.loads(done.stdout.splitlines()[-1])
            require(one.pop("nclips") == len(ids), name, "the number of clips")
            require(one.pop("sum") == _sum_of(images), name, f"a frame of {key}")
            found[name].append(one)
    bench.found["opening"] = {
        name: {what: median(one[what] for one in rounds) for what in rounds[0]}
        for name, rounds in found.items()
    }
    remove(store)
    remove(folder)


def _tiny_images() -> list[bytes]:
    """Return small images of different sizes."""
    rng = np.random.default_rng(5)
    return [
        image.encode_jpeg(rng.integers(0, 2 + number, (8, 8), dtype=np.uint8), quality=60)
        for number in range(_FRAMES_PER_CLIP)
    ]


def _sum_of(images: list[bytes]) -> int:
    return int(image.decode(images[_FRAME]).sum())


def write_store(path: Path, ids: list[str], images: list[bytes]) -> None:
    """Append a clip of all images for each id."""
    with bp.frames.create(path, codec="jpeg") as store:
        for number, key in enumerate(ids):
            store.append(key, images, {"label": number % 400})


def write_gulp(folder: Path, ids: list[str], images: list[bytes]) -> None:
    """Write indexes as GulpIO2 does; the items of a chunk share the records of one."""
    folder.mkdir()
    data, triplets = bytearray(), []
    for one in images:
        pad = -len(one) % 4
        triplets.append([len(data), pad, len(one) + pad])
        data += one + bytes(pad)
    for number, start in enumerate(range(0, len(ids), _CLIPS_PER_CHUNK)):
        items = {
            key: {"frame_info": triplets, "meta_data": [{"label": (start + k) % 400}]}
            for k, key in enumerate(ids[start : start + _CLIPS_PER_CHUNK])
        }
        (folder / f"meta_{number}.gmeta").write_text(json.dumps(items), "ascii")
        (folder / f"data_{number}.gulp").write_bytes(data)
