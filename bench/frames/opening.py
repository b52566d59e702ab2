"""Opening: a store of a million frames, and a Gulp directory of as many, in fresh processes."""

import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
from race.races import remove, require
from race.resident import STATUS
from race.worker import BENCH

import bloscpack as bp
from bloscpack.media import image
from frames.contenders import GULP_SOURCE, GULPIO2

if TYPE_CHECKING:
    from frames.cases import Clips

OURS = "bloscpack, frame store"
_FRAMES_PER_CLIP = 100
_CLIPS_PER_CHUNK = 100  # of a Gulp directory, the default
_FRAME = 50
_TIMEOUT = 60  # seconds


def measure_opening(races: "Clips") -> None:
    """Find seconds and resident bytes of opening, medians by contender."""
    if not STATUS.exists():
        races.absent["resident memory"] = f"no {STATUS}"
        return
    races.say("writing a million tiny frames")
    images = _tiny_images()
    ids = [f"videos/clip_{number:06d}" for number in range(races.setting.nindexed)]
    store, folder = races.folder / "million.blp", races.folder / "million"
    _write_store(store, ids, images)
    _write_gulp(folder, ids, images)
    readers = [name for name in (GULP_SOURCE, GULPIO2) if races.has(name)]
    places = {OURS: store, **dict.fromkeys(readers, folder)}
    races.say("opening them")
    key, total = ids[len(ids) * 7 // 9], int(image.decode(images[_FRAME]).sum())
    found: dict[str, list[dict[str, float]]] = {name: [] for name in places}
    for _ in range(min(5, races.setting.nrounds)):
        for name, path in places.items():
            library = "gulpio2" if name == GULPIO2 else "bloscpack"
            one = _open(library, path, key)
            require(one.pop("nclips") == len(ids), name, "the number of clips")
            require(one.pop("sum") == total, name, f"a frame of {key}")
            found[name].append(one)
    races.found["opening"] = {
        name: {what: median(one[what] for one in rounds) for what in rounds[0]}
        for name, rounds in found.items()
    }
    remove(store)
    remove(folder)


def _open(library: str, path: Path, key: str) -> dict[str, float]:
    """Return the figures of a fresh process; see opening_worker.py."""
    command = [sys.executable, "-m", "frames.opening_worker", library, path, key, str(_FRAME)]
    done = subprocess.run(command, cwd=BENCH, check=True, capture_output=True, timeout=_TIMEOUT)
    return json.loads(done.stdout.splitlines()[-1])


def _tiny_images() -> list[bytes]:
    """Return small images of different sizes."""
    rng = np.random.default_rng(5)
    return [
        image.encode_jpeg(rng.integers(0, 2 + number, (8, 8), dtype=np.uint8), quality=60)
        for number in range(_FRAMES_PER_CLIP)
    ]


def _write_store(path: Path, ids: list[str], images: list[bytes]) -> None:
    with bp.frames.create(path, codec="jpeg") as store:
        for number, key in enumerate(ids):
            store.append(key, images, {"label": number % 400})


def _write_gulp(folder: Path, ids: list[str], images: list[bytes]) -> None:
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
