"""Small recordings with every kind of block, and modified copies of stores."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import bloscpack as bp
from bloscpack import vrs
from bloscpack.media import image


class Imu(vrs.Layout):
    temperature = vrs.Value("float")
    accelerometer = vrs.Array("float", 3)
    is_good = vrs.Value("bool")
    name = vrs.String()
    counts = vrs.Vector("uint16")


class Point(vrs.Layout):
    at = vrs.Value("Point3Dd")


RNG = np.random.default_rng(7)
ACCELERATION = RNG.normal(size=(50, 3)).astype("f4")
FRAMES = RNG.integers(0, 255, (5, 12, 16), np.uint8)
SAMPLES = RNG.integers(-999, 999, (4, 20, 2), np.int16)


def write_recording(path: Path, **options: Any) -> Path:
    """Write a recording of four streams."""
    with vrs.create(path, tags={"place": "lab"}, **options) as writer:
        imu = writer.stream("imu", tags={"role": "head"})
        imu.define("data", Imu)
        imu.define("configuration", Point)
        raw = writer.stream(1201)
        raw.define("data", Point, vrs.Image("raw", width=16, height=12, pixel_format="grey8"))
        jpeg = writer.stream(1202)
        jpeg.define("data", vrs.Image("png"))
        audio = writer.stream(400)
        audio.define("data", vrs.Audio("int16le", channels=2, rate=8000))
        imu.write("configuration", 0.0, {"at": (1, 2, 3)})
        for number in range(50):
            imu.write("data", number / 100, imu_values(number))
        for number, frame in enumerate(FRAMES):
            raw.write("data", number / 10, {"at": (number, 0, 0)}, frame)
            jpeg.write("data", number / 10, image.encode_png(frame))
        for number, samples in enumerate(SAMPLES):
            audio.write("data", number / 5, samples[: 20 - number])
    return path


def imu_values(number: int) -> dict[str, Any]:
    return {
        "temperature": number / 2,
        "accelerometer": ACCELERATION[number].tolist(),
        "is_good": number % 3 == 0,
        "name": "n" * (number % 4),
        "counts": list(range(number % 5)),
    }


def rewrite(source: Path, target: Path, change: Callable[[str, Any, dict[str, Any]], Any]) -> Path:
    """Copy a store; `change` returns id, frames and metadata of a clip, or None to drop it."""
    with bp.frames.open(source) as store:
        attrs = store.attrs  # type: ignore[attr-defined]
        with bp.frames.create(target, attrs=attrs) as copy:
            for id_ in store:
                clip = store[id_]
                frames: Any = clip.read_images() or clip[:]
                changed = change(id_, frames, json.loads(json.dumps(clip.meta)))
                if changed is not None:
                    copy.append(*changed)
    return target
