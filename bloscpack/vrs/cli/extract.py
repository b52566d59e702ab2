"""``blpk vrs extract``: write images, audio and metadata of a recording to files."""

import argparse

from ...plugin import (
    Console,
    add_folder,
    add_json_option,
    add_option,
    double_pretty_size,
    report_extract,
)
from .recordings import add_file, add_filter_options, add_selection, choose, open_recording

# The same as in vrs/export/extraction.py, which is imported on use.
KINDS = "image", "audio", "custom", "metadata"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write images (JPEG, PNG and JPEG XL unchanged, raw ones as PNG), audio "
        "(WAV), custom blocks, and metadata as JSON lines into a folder."
    )
    add_file(parser)
    add_folder(parser)
    add_option(
        parser,
        "--only KIND",
        f"only {', '.join(KINDS)}; may be repeated",
        choices=KINDS,
        action="append",
    )
    add_filter_options(parser)
    add_selection(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Extract."""
    from ..export.extraction import extract

    console = Console(args)
    with open_recording(args.file_, args.nthreads, console) as recording:
        records = choose(recording, args)
        with console.progress() as progress:
            report = extract(
                recording,
                args.folder,
                records=records,
                kinds=args.only or KINDS,
                overwrite=args.force,
                nthreads=args.nthreads,
                progress=progress,
            )
    kinds = ", ".join(f"{report.nfiles[kind]} {kind}" for kind in KINDS if report.nfiles[kind])
    text = (
        f"{report.nrecords} records, {report.nfiles.total()} files ({kinds or 'none'}), "
        f"{double_pretty_size(report.nbytes)}"
    )
    if report.nleft_out:
        console.note(f"{report.nleft_out} blocks have no file: their size or coding is not known")
    counts = {
        "nrecords": report.nrecords,
        "nfiles": dict(report.nfiles),
        "nleft_out": report.nleft_out,
        "nbytes": report.nbytes,
    }
    return report_extract(args, "vrs extract", report.damage, counts, text)
