"""Benzina datasets to be damaged: original ones, and small ones of every codec and form."""

import functools
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vectors import ReferenceFolder

# Builders of files in other tests, importable from a test run and from the worker.
sys.path.insert(0, str(Path(__file__).parents[2]))

from bloscpack import benzina
from bloscpack.benzina.mp4.bmff import BoxHeader, reader_of, walk
from bloscpack.benzina.mp4.samplewriter import StoredPicture, pack_sample
from tests.benzina import making
from tests.benzina.datasetfiles import dataset_bytes
from tests.benzina.encoded import encoded

FILES = ReferenceFolder("benzina")


@dataclass(frozen=True)
class SampleFacts:
    """A sample before it is damaged."""

    start: int
    end: int
    target: int
    name: str | None


@dataclass(frozen=True)
class DatasetVector:
    """A dataset and its samples."""

    name: str
    data: bytes
    samples: tuple[SampleFacts, ...]
    # Boxes of the file, a limited number, and of the first samples, at their places in the file.
    boxes: tuple[BoxHeader, ...]
    nouter: int


def _vector(name: str, data: bytes) -> DatasetVector:
    with benzina.open(data) as dataset:
        samples = tuple(
            SampleFacts(each.location, each.location + each.size, each.target, each.name)
            for each in dataset.samples()
        )
    found = [box for _, box in walk(reader_of(data), 0, len(data), to_end=True)]
    nouter = len(found)
    for each in samples[:4]:
        inside = data[each.start : each.end]
        found += [
            box._replace(offset=box.offset + each.start)
            for _, box in walk(reader_of(inside), 0, len(inside), to_end=True)
        ]
    return DatasetVector(name, data, samples, tuple(found), nouter)


def _coded(codec: str, pix_fmt: str = "yuv420p") -> bytes:
    """Return a dataset of two pictures of a codec, each with its own configuration."""
    samples = []
    for number, size in enumerate((64, 80)):
        coded = encoded(codec, pix_fmt, size, size)
        stored = StoredPicture(
            coded.kind, coded.config, coded.payload, (size, size), (0, 0, 50, size - number)
        )
        target = number.to_bytes(8, "little")
        samples.append(pack_sample(stored, None, name=b"%d.png\0" % number, target=target))
    targets = [number.to_bytes(8, "little") for number in range(2)]
    return dataset_bytes(samples, [b"0.png\0", b"1.png\0"], targets, {"train": range(1)})


@functools.cache
def dataset_vectors() -> tuple[DatasetVector, ...]:
    """Return all datasets; original files only if available."""
    made = {
        "default": making.dataset([making.sample(k) for k in range(6)]),
        "reference": making.dataset([making.sample(k) for k in range(6)], "reference"),
        "hevc": _coded("libx265"),
        "hevc444": _coded("libx265", "yuv444p10le"),
        "h264": _coded("libx264"),
        "av1": _coded("libsvtav1"),
    }
    if FILES:
        files: dict[str, Any] = json.loads((FILES / "manifest.json").read_text("utf-8"))["files"]
        for name, facts in files.items():
            data = (FILES / name).read_bytes()
            is_sample = facts["kind"] != "dataset"
            made[name] = dataset_bytes([data], [name.encode()]) if is_sample else data
    return tuple(_vector(name, data) for name, data in made.items())
