"""Description of a dataset, for ``blpk info``."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...plugin import BloscpackError, ByteSource, Description, exact_size_text
from .datasets import INPUT, THUMB, open_dataset

if TYPE_CHECKING:
    from ..dataset import Dataset
    from ..mp4.samplelayout import InnerTrack

_SHOWN_SPLITS = 20


def about(args: argparse.Namespace, source: ByteSource) -> Description:
    """Describe a dataset and its first sample."""
    errors: list[BloscpackError] = []
    with open_dataset(args.file_, args.nthreads, source=source) as dataset:
        document = _document(dataset, errors)
    targets, first = document["targets"], document["first_sample"]
    splits = [
        f"{name} {start}:{stop}" for name, (start, stop) in (document["splits"] or {}).items()
    ]
    more = f" and {len(splits) - _SHOWN_SPLITS} more" if len(splits) > _SHOWN_SPLITS else ""
    fields = (
        ("kind", "Benzina dataset"),
        ("samples", document["nsamples"]),
        ("stored", exact_size_text(document["cbytes"])),
        (
            "targets",
            targets and "{count}, {distinct} different, {min} to {max}".format_map(targets),
        ),
        ("names", document["nnames"] or None),
        ("splits", ", ".join(splits[:_SHOWN_SPLITS]) + more if splits else None),
        *(
            (title, _picture_text(first[name]))
            for title, name in (("picture", INPUT), ("thumbnail", THUMB))
            if first and first[name]
        ),
        ("brands", ", ".join(document["brands"]) or None),
    )
    rows = [
        (
            str(track["nsamples"]),
            track["mime"] or track["codec"],
            _sides(track["shape"]) if track["shape"] else "-",
            track["name"],
        )
        for track in document["tracks"]
    ]
    names = ("samples", "content", "frames of", "track")
    return Description(document, fields, names, rows, right=("samples",), errors=errors)


def _document(dataset: "Dataset", errors: list[BloscpackError]) -> dict[str, Any]:
    def attempt(part: Callable[["Dataset"], Any]) -> Any:
        try:
            return part(dataset)
        except BloscpackError as err:
            errors.append(err)
            return None

    return {
        "kind": "dataset",
        "nsamples": len(dataset),
        "cbytes": dataset.nbytes,
        "brands": [brand.decode("latin-1") for brand in dataset.movie.brands],
        "tracks": [
            {
                "name": track.name,
                "handler": track.handler,
                "nsamples": len(track),
                "mime": track.mime or None,
                "codec": None if track.mime else _code(track.table.entry_kind),
                "shape": track.shape and list(track.shape),
            }
            for track in dataset.tracks.values()
        ],
        "targets": attempt(_targets),
        "nnames": attempt(lambda dataset: sum(name is not None for name in dataset.names)),
        "splits": attempt(
            lambda dataset: {name: [of.start, of.stop] for name, of in dataset.splits.items()}
        ),
        "first_sample": attempt(_first_sample),
    }


def _targets(dataset: "Dataset") -> dict[str, int] | None:
    """Return the number and the range of targets, or None; -1 marks a sample without one."""
    targets = dataset.targets
    values, counts = np.unique(targets[targets != -1], return_counts=True)
    if not len(values):
        return None
    return {
        "count": int(counts.sum()),
        "distinct": len(values),
        "min": int(values[0]),
        "max": int(values[-1]),
    }


def _first_sample(dataset: "Dataset") -> dict[str, Any] | None:
    if not len(dataset):
        return None
    sample = dataset[0]
    tracks = sample.layout.tracks
    return {"cbytes": sample.size, **{name: picture(tracks.get(name)) for name in (INPUT, THUMB)}}


def picture(track: "InnerTrack | None") -> dict[str, Any] | None:
    """Return the JSON fields of the picture in a track of a sample."""
    if track is None:
        return None
    return {
        "codec": _code(track.entry_kind),
        "shape": [track.clean.height, track.clean.width],
        "frame": list(track.frame[::-1]),
        "nbytes": track.nbytes,
    }


def _code(kind: bytes) -> str:
    return kind.decode("ascii", "backslashreplace")


def _picture_text(about: dict[str, Any]) -> str:
    sides = f"{_sides(about['shape'])} in a frame of {_sides(about['frame'])}"
    return f"{sides}, {about['codec']}, {exact_size_text(about['nbytes'])}"


def _sides(shape: list[int]) -> str:
    """Return height and width as text, in the order of a shape."""
    return f"{shape[0]}x{shape[1]}"
