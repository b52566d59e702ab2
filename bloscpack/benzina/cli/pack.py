"""``blpk bzna pack``: encode pictures into a new dataset."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...plugin import (
    STATUS_NAMES,
    STDIO,
    Console,
    ExitCode,
    Place,
    UsageError,
    add_force_option,
    add_json_option,
    add_option,
    check_input,
    check_output,
    count,
    message,
    passed_on,
    print_done,
    printable,
)

if TYPE_CHECKING:
    from ..packing import PackReport, SkippedPicture

# The same as in benzina/codec/encoder.py, which is imported on use.
CODECS = "hevc", "h264", "av1"
_CODING = ("codec", "crf", "preset", "lossless", "tile", "profile")
_SHOWN_CLASSES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Encode pictures into a new dataset. INPUT is a folder, whose subfolders are the classes: "
        "the number of the class is the target. Or it is a list of files, which are packed in "
        "this order and without targets."
    )
    parser.add_argument("inputs", metavar="INPUT", nargs="+", help="one folder, or files")
    parser.add_argument("target", metavar="OUT", help="dataset to write")
    _add_coding_options(parser)
    add_option(
        parser,
        "--split NAME=START:STOP",
        "store a split: its name and its range of samples; may be repeated",
        type=_split,
        action="append",
    )
    add_option(
        parser,
        "--skip-damaged",
        "skip and report pictures that cannot be read, and exit with 1; by default nothing is "
        "written then",
    )
    add_option(
        parser, "--allow-skipped", "with --skip-damaged, exit with 0 even if pictures were skipped"
    )
    add_option(parser, "--allow-empty", "make a dataset even if no picture can be packed")
    add_force_option(parser, "overwrite an existing file")
    add_json_option(parser)


def _add_coding_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("pictures")
    add_option(
        group, "-c, --codec", "H.265, H.264 or AV1 (default: hevc)", choices=CODECS, default="hevc"
    )
    add_option(
        group,
        "--crf N",
        "quality, from 0 (best) to 51 (av1: 63) (default: 24 for hevc, 20 for h264, 12 for av1)",
        type=float,
    )
    add_option(group, "--preset NAME", "speed of the encoder (default: medium)")
    add_option(group, "--lossless", "encode losslessly; hevc and h264 only")
    add_option(
        group,
        "--tile PIXELS",
        "width and height of frames are multiples of it, and thumbnails fit into it (default: "
        "%(default)s)",
        type=count,
        default=512,
    )
    add_option(group, "--no-thumb", "do not store thumbnails")
    add_option(
        group,
        "--profile",
        "reference: write files like Benzina's own tools (default: default)",
        choices=("default", "reference"),
        default="default",
    )


def run(args: argparse.Namespace) -> int:
    """Pack pictures."""
    from ..packing import pack

    if args.allow_skipped and not args.skip_damaged:
        raise UsageError("--allow-skipped requires --skip-damaged")
    console = Console(args)
    source = _source(args.inputs)
    if args.target == STDIO:
        raise UsageError("OUT must be the name of a file, not '-'")
    check_output(args.target, [*map(Place, args.inputs)], console, force=args.force)
    splits = dict(args.split or ())
    if len(splits) < len(args.split or ()):
        raise UsageError("--split: a split of this name is given twice")
    with console.progress(unit="pictures") as progress:

        def report_skipped(skipped: "SkippedPicture") -> None:
            progress.wipe()
            message(printable(f"skipped: {skipped}"))

        report = pack(
            source,
            args.target,
            on_error="skip" if args.skip_damaged else "raise",
            progress=progress,
            log=report_skipped,
            thumb=not args.no_thumb,
            splits=splits or None,
            overwrite=args.force,
            nthreads=args.nthreads,
            **passed_on(args, *_CODING, "allow_empty"),
        )
    code = ExitCode.OK if report.ok or args.allow_skipped else ExitCode.FAILED
    print_done(args, "bzna pack", _document(args, report, code), args.target, _summary(report))
    return code


def _source(inputs: Sequence[str]) -> Any:
    """Return the name of a folder, or the items of files."""
    for name in inputs:
        check_input(Place(name), "input")
    if len(inputs) == 1 and Path(inputs[0]).is_dir():
        return inputs[0]
    for name in inputs:
        if Path(name).is_dir():
            raise UsageError(f"'{name}' is a folder: pack it alone, or name files")
    return [(name, None, Path(name).name) for name in inputs]


def _split(text: str) -> tuple[str, tuple[int, int]]:
    name, sign, span = text.rpartition("=")
    start, colon, stop = span.partition(":")
    if not sign or not name or not colon or not (start.isdecimal() and stop.isdecimal()):
        raise argparse.ArgumentTypeError(f"must be like train=0:100, not {text!r}")
    return name, (int(start), int(stop))


def _summary(report: "PackReport") -> str:
    parts = [f"{report.nsamples} samples"]
    if report.classes:
        shown = ", ".join(report.classes[:_SHOWN_CLASSES])
        more = ", ..." if len(report.classes) > _SHOWN_CLASSES else ""
        parts.append(f"{len(report.classes)} classes ({shown}{more})")
    if report.skipped:
        parts.append(f"{len(report.skipped)} skipped")
    return ", ".join(parts)


def _document(args: argparse.Namespace, report: "PackReport", code: ExitCode) -> dict[str, Any]:
    return {
        "paths": args.inputs,
        "target": args.target,
        "status": STATUS_NAMES[code],
        "nsamples": report.nsamples,
        "classes": report.classes,
        "skipped": [asdict(each) for each in report.skipped],
    }
