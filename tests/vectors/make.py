"""Make the files in ``formats``: ``python -m tests.vectors.make NEW_FOLDER``.

The files there are fixed; this program shows how each was made, and refuses to write over a file.
Another release of an encoder, or of a compressor, may make other bytes of the same content.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

import bloscpack as bp
from bloscpack import gulp, vrs
from bloscpack.benzina.mp4.samplewriter import StoredPicture, pack_sample
from bloscpack.media import image
from tests.benzina.datasetfiles import dataset_bytes
from tests.benzina.encoded import encoded

Frame = np.ndarray[Any, np.dtype[np.uint8]]

NSHOTS = 6
# Of each clip its frames, height and width.
CLIPS = {"walk": (3, 24, 32), "run": (2, 16, 40)}
PICTURES = 3


def frame(number: int, height: int, width: int, channels: int = 3) -> Frame:
    """Return smooth colours that move with `number`; JPEG changes them by little."""
    rows, columns = np.ogrid[:height, :width]
    planes = [rows * 4 + columns * (k + 1) + 20 * number for k in range(channels)]
    smooth = np.stack(np.broadcast_arrays(*planes), -1) % 400
    return np.where(smooth < 200, smooth, 400 - smooth).astype("u1")


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


def make_gulp(folder: Path) -> None:
    folder.mkdir()
    for number, (id_, (count, height, width)) in enumerate(CLIPS.items()):
        chunk = gulp.GulpChunk(folder / f"data_{number}.gulp", folder / f"meta_{number}.gmeta")
        with chunk.open("wb"):
            frames = [frame(k, height, width) for k in range(count)]
            chunk.append(id_, {"label": id_, "idx": number}, frames)


def make_dataset(codec: str) -> bytes:
    stored = []
    for number in range(PICTURES):
        size = 64 + 16 * number
        coded = encoded(codec, "yuv420p", size, size)
        picture = StoredPicture(
            coded.kind, coded.config, coded.payload, (size, size), (0, 0, size, size)
        )
        target = number.to_bytes(8, "little")
        stored.append(pack_sample(picture, None, name=b"%d.png\0" % number, target=target))
    names = [b"%d.png\0" % number for number in range(PICTURES)]
    targets = [number.to_bytes(8, "little") for number in range(PICTURES)]
    return dataset_bytes(stored, names, targets, {"train": range(2)})


def main(folder: Path) -> None:
    folder.mkdir()  # a new one: no file is ever replaced
    make_recording(folder / "recording.vrs", compression="none")
    make_recording(
        folder / "recording_zstd.vrs", compression="zmedium", index="front", index_room=64
    )
    make_recording(folder / "recording_split.vrs", compression="zfast", chunk_nbytes=3000)
    bp.convert(folder / "recording.vrs", folder / "recording_store.blp")
    make_gulp(folder / "gulp")
    bp.convert(folder / "gulp", folder / "gulp_store.blp")
    for codec, name in (("libx265", "hevc"), ("libx264", "h264"), ("libsvtav1", "av1")):
        (folder / f"{name}.bzna").write_bytes(make_dataset(codec))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
