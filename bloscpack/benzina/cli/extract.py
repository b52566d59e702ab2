"""``blpk bzna extract``: write the samples of a dataset to files."""

import argparse

from ...plugin import (
    Console,
    UsageError,
    add_folder,
    add_json_option,
    add_option,
    count,
    double_pretty_size,
    report_extract,
)
from .datasets import INPUT, TRACKS, add_file, add_selection, choose, open_dataset

# The same as in benzina/samplefiles.py, which is imported on use.
FORMS = "mp4", "png", "jpeg"
LISTS = "csv", "json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write the samples into a folder, unchanged (each is a separate mp4) or "
        "decoded, and a list of their names and targets. Any stored name becomes a file name "
        "inside the folder."
    )
    add_file(parser)
    add_folder(parser)
    add_option(
        parser,
        "--as",
        "mp4: the samples byte for byte; png: their pictures, lossless; jpeg: lossy (default: mp4)",
        choices=FORMS,
        default="mp4",
        dest="form",
    )
    add_option(
        parser,
        "--track",
        "for png and jpeg: the picture or its thumbnail (default: input)",
        choices=tuple(TRACKS),
    )
    add_option(parser, "--quality N", "for jpeg, 1 to 100 (default: 95)", type=count)
    add_option(
        parser,
        "--list",
        "format of the list, samples.csv or samples.json (default: csv)",
        choices=(*LISTS, "none"),
        default="csv",
        dest="listing",
    )
    add_selection(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Extract."""
    from ..samplefiles import extract

    if args.quality is not None and args.form != "jpeg":
        raise UsageError("--quality requires --as jpeg")
    if args.track is not None and args.form == "mp4":
        raise UsageError("--track requires --as png or --as jpeg")
    console = Console(args)
    with (
        open_dataset(args.file_, args.nthreads, splits=args.splits) as dataset,
        console.progress(unit="samples") as progress,
    ):
        report = extract(
            choose(dataset, args),
            args.folder,
            form=args.form,
            track=TRACKS.get(args.track, INPUT),
            quality=95 if args.quality is None else args.quality,
            listing=None if args.listing == "none" else args.listing,
            overwrite=args.force,
            nthreads=args.nthreads,
            progress=progress,
        )
    text = f"{report.nfiles} samples, {double_pretty_size(report.nbytes)}"
    counts = {"nfiles": report.nfiles, "nbytes": report.nbytes, "nrenamed": report.nrenamed}
    code = report_extract(args, "bzna extract", report.damage, counts, text)
    if report.nrenamed and not args.json:
        console.note(f"the names of {report.nrenamed} files differ from the stored names")
    return code
