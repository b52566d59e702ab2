"""Benzina datasets: samples by target and split, and the tracks of one."""

from typing import Any

import numpy as np

from ..view.clips import search_ids
from ..view.protocol import EXPECTED, Answer, Query, QueryError, Work, document
from ..view.session import ViewedFile
from ..view.slices import message
from .dataset import Dataset

MAX_SAMPLES = 200
_MAX_TARGETS = 400


def describe(file: ViewedFile, query: Query, work: Work) -> Answer:
    """Return the number of samples, the splits, the targets and the tracks of the file."""
    dataset: Dataset = file.open()
    found: dict[str, Any] = {"nsamples": len(dataset), "nbytes": dataset.nbytes}
    try:
        targets, counts = np.unique(dataset.targets, return_counts=True)
        rows = zip(targets.tolist(), counts.tolist(), strict=True)
        found["targets"] = [list(each) for each in rows][:_MAX_TARGETS]
        found["splits"] = {name: [each.start, each.stop] for name, each in dataset.splits.items()}
        found["tracks"] = {name: len(track) for name, track in dataset.tracks.items()}
    except EXPECTED as err:
        found["error"] = message(err)
    return document(found)


def samples(file: ViewedFile, query: Query, work: Work) -> Answer:
    """Return a page of the samples of a split, with a target, whose names contain a text."""
    dataset: Dataset = file.open()
    chosen = np.arange(len(dataset))
    split, target = query.text("split"), query.text("target")
    if split:
        if split not in dataset.splits:
            raise QueryError(f"no split {split!r:.80}")
        places = dataset.splits[split]
        chosen = chosen[places.start : places.stop]
    if target:
        wanted = query.integer("target", 0, -(1 << 63), (1 << 63) - 1)
        chosen = chosen[dataset.targets[chosen] == wanted]
    text = query.text("search").lower()
    if text:
        keys = dataset.keys()
        ids = ((index, keys[index]) for index in chosen.tolist())
        chosen = np.array(search_ids(ids, text, work), np.int64)
    start = query.integer("start", 0, 0, 1 << 40)
    count = query.integer("count", 60, 1, MAX_SAMPLES)
    rows = []
    for index in chosen[start : start + count].tolist():
        work.step()
        row: dict[str, Any] = {"ordinal": index}
        try:
            sample = dataset[index]
            row |= {"id": sample.id, "target": sample.target, "size": sample.size}
        except EXPECTED as err:
            row |= {"id": str(index), "error": message(err)}
        rows.append(row)
    return document({"total": len(chosen), "start": start, "samples": rows})


def sample(file: ViewedFile, query: Query, work: Work) -> Answer:
    """Return name, target, place and tracks of a sample."""
    dataset: Dataset = file.open()
    if not len(dataset):
        raise QueryError("the dataset has no samples")
    found = dataset[query.integer("clip", 0, 0, len(dataset) - 1)]
    tracks = {
        track.name: {
            "kind": track.entry_kind.decode("latin-1"),
            "nbytes": track.nbytes,
            "frame": list(track.frame),
            "mime": track.mime,
        }
        for track in found.layout.tracks.values()
    }
    return document(
        {"id": found.id, "name": found.name, "target": found.target, "size": found.size,
         "offset": found.location, "shape": list(found.shape), "tracks": tracks}
    )  # fmt: skip
