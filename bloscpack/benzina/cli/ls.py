"""``blpk bzna ls``: list samples, one line per sample."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...plugin import (
    BloscpackError,
    ByteSource,
    ExitCode,
    add_json_option,
    add_option,
    describe,
    error,
    exit_code,
    most_severe,
    print_json,
    printable,
    result,
    shown_name,
)
from .datasets import INPUT, THUMB, add_file, add_selection, choose, open_dataset
from .info import picture

if TYPE_CHECKING:
    from ..dataset import Dataset
    from ..sample import Sample


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print for each sample: its number, target (-1 without one), stored bytes and "
        "name. No sample is read."
    )
    add_file(parser)
    add_option(
        parser, "--pictures", "read each sample, and print the shape of its picture before the name"
    )
    add_selection(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """List samples."""
    codes: list[ExitCode] = []
    with open_dataset(args.file_, args.nthreads, splits=args.splits) as dataset:
        entries = _entries(choose(dataset, args), codes, pictures=args.pictures)
        if args.json:
            print_json("bzna ls", {"path": shown_name(args.file_), "samples": entries})
        else:
            for entry in entries:
                result(_line(entry, pictures=args.pictures))
    return most_severe(codes)


def entry(source: ByteSource) -> dict[str, Any]:
    """Return the JSON fields of a dataset for ``blpk ls``; no sample is read."""
    from ..dataset import open as open_file

    with open_file(source) as dataset:
        return {"kind": "dataset", "count": len(dataset), "cbytes": dataset.nbytes}


def _entries(
    samples: "Dataset", codes: list[ExitCode], *, pictures: bool
) -> Iterator[dict[str, Any]]:
    # Two reads for all names and targets, instead of two for each sample.
    names, targets = samples.names, samples.targets
    each = samples.samples() if pictures else (samples[k] for k in range(len(samples)))
    for position, sample in enumerate(each):
        entry = {
            "sample": sample.index,
            "name": names[position],
            "target": int(targets[position]),
            "offset": sample.location,
            "cbytes": sample.size,
        }
        if pictures:
            try:
                entry |= _pictures(sample)
            except BloscpackError as err:
                entry |= {INPUT: None, THUMB: None, "error": describe(err)}
                error(describe(err))
                codes.append(exit_code(err))
        yield entry


def _pictures(sample: "Sample") -> dict[str, Any]:
    tracks = sample.layout.tracks
    return {name: picture(tracks.get(name)) for name in (INPUT, THUMB)} | {"error": None}


def _line(entry: dict[str, Any], *, pictures: bool) -> str:
    columns = [f"{entry['sample']:>8}", f"{entry['target']:>8}", f"{entry['cbytes']:>9}"]
    if pictures:
        about = entry[INPUT]
        columns.append(f"{'x'.join(map(str, about['shape'])) if about else '-':<11}")
    columns.append("-" if entry["name"] is None else entry["name"])
    return printable("  ".join(columns)).rstrip()
