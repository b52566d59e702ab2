"""The small VRS recordings: what they hold, and the functions that made them."""

from pathlib import Path
from typing import Any

import numpy as np

import bloscpack as bp
from bloscpack import vrs
from bloscpack.media import image

from .pictures import frame

NSHOTS = 6


def samples(number: int) -> Any:
    """Return sound of two channels."""
    return np.arange(40, dtype="<i2").reshape(20, 2) * (number + 1)


class Setup(vrs.Layout):
    lens = vrs.String()
    rate = vrs.Value("double")


class Shot(vrs.Layout):
    exposure = vrs.Value("float")
    ticks = vrs.Vector("uint16_t")
    names = vrs.StringMap("int32_t")
    where = vrs.Array("float", 3)


def shot(number: int) -> dict[str, Any]:
    return {
        "exposure": number / 4,
        "ticks": list(range(number)),
        "names": {"n": number, "\u00e9": -number},
        "where": [number, 0.5, -1.0],
    }


def make_recording(path: Path, **options: Any) -> None:
    """A camera of raw images, one of JPEG, a microphone, and blocks that only their maker knows."""
    with vrs.create(path, tags={"made": "for tests"}, **options) as recording:
        raw = recording.stream("RGB Camera Class", flavor="test/raw", tags={"place": "front"})
        raw.define("configuration", Setup)
        raw.define("data", Shot, vrs.Image("raw", 16, 8, "rgb8"))
        jpeg = recording.stream("RGB Camera Class", flavor="test/jpeg")
        jpeg.define("data", Shot, vrs.Image("jpg"))
        sound = recording.stream("Generic Audio Stream", flavor="test/sound")
        sound.define("data", vrs.Audio("int16le", 2, 48000, samples=20))
        other = recording.stream("imu", flavor="test/custom")
        other.define("state", vrs.Custom("blob"))
        raw.write("configuration", 0.0, {"lens": "wide", "rate": 20.0})
        for number in range(NSHOTS):
            time = number / 10
            raw.write("data", time, shot(number), frame(number, 8, 16))
            jpeg.write("data", time + 0.01, shot(number), image.encode_jpeg(frame(number, 24, 32)))
            sound.write("data", time + 0.02, samples(number))
            other.write("state", time + 0.03, b"state %d" % number * 30)


def make_recordings(folder: Path) -> None:
    make_recording(folder / "recording.vrs", compression="none")
    make_recording(
        folder / "recording_zstd.vrs", compression="zmedium", index="front", index_room=64
    )
    make_recording(folder / "recording_split.vrs", compression="zfast", chunk_nbytes=3000)
    bp.convert(folder / "recording.vrs", folder / "recording_store.blp")
