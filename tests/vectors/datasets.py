"""The small Benzina datasets: what they hold, and the functions that made them."""

from pathlib import Path

from bloscpack.benzina.mp4.samplewriter import StoredPicture, pack_sample
from tests.benzina.datasetfiles import dataset_bytes
from tests.benzina.encoded import encoded

PICTURES = 3


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


def make_datasets(folder: Path) -> None:
    for codec, name in (("libx265", "hevc"), ("libx264", "h264"), ("libsvtav1", "av1")):
        (folder / f"{name}.bzna").write_bytes(make_dataset(codec))
