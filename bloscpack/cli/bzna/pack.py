"""``blpk bzna pack``: pictures into a new dataset."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..console.endpoint import check_input
from ..console.options import add_json_option, count
from ..console.output import Console, message, print_json, printable, result
from ..console.status import STATUS_NAMES, ExitCode, UsageError

if TYPE_CHECKING:
    from ...benzina.packing import PackReport, SkippedPicture

# Those of benzina/encoder.py, which is imported on use.
CODECS = "hevc", "h264", "av1"
_SHOWN_CLASSES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the description and the arguments."""
    parser.description = (
        "Encode pictures into a new dataset: those of a folder and of the folders in "
        "it, each folder at its top being a class whose number is the target; or files, in this "
        "order and without targets."
    )
    parser.add_argument("inputs", metavar="INPUT", nargs="+", help="a folder, or files")
    parser.add_argument("target", metavar="OUT", help="dataset to write")
    _add_coding_options(parser)
    parser.add_argument(
        "--split",
        metavar="NAME=START:STOP",
        type=_split,
        action="append",
        help="store which samples a split has; may be repeated",
    )
    parser.add_argument(
        "--skip-damaged",
        action="store_true",
        help="leave out what cannot be read, say so, and end with 1; without, nothing is written",
    )
    parser.add_argument(
        "--allow-skipped", action="store_true", help="with --skip-damaged, end with 0 all the same"
    )
    parser.add_argument(
        "--allow-empty", action="store_true", help="make a dataset of a folder without pictures"
    )
    parser.add_argument(
        "-f",
        "--force",
        action="store_true",
        default=argparse.SUPPRESS,
        help="replace a file that is there",
    )
    add_json_option(parser)


def _add_coding_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("pictures")
    group.add_argument(
        "-c", "--codec", choices=CODECS, default="hevc", help="H.265, H.264 or AV1 (default: hevc)"
    )
    group.add_argument(
        "--crf",
        metavar="N",
        type=float,
        help="quality: 0 is the best, 51 (av1: 63) the worst (default: 24 of hevc, 20 of h264, 12 "
        "of av1)",
    )
    group.add_argument(
        "--preset", metavar="NAME", help="how much time the encoder takes (default: medium)"
    )
    group.add_argument(
        "--lossless", action="store_true", help="keep every pixel as it is; hevc and h264"
    )
    group.add_argument(
        "--tile",
        metavar="PIXELS",
        type=count,
        default=512,
        help="sides of frames are multiples of it, and thumbnails fit it (default: %(default)s)",
    )
    group.add_argument("--no-thumb", action="store_true", help="store no thumbnails")
    group.add_argument(
        "--profile",
        choices=("default", "reference"),
        default="default",
        help="reference: as Benzina's own tools write it (default: default)",
    )


def run(args: argparse.Namespace) -> int:
    """Pack pictures."""
    from ...benzina.packing import pack

    if args.allow_skipped and not args.skip_damaged:
        raise UsageError("--allow-skipped is for --skip-damaged")
    console = Console(args)
    source = _source(args.inputs)
    with console.progress(unit="pictures") as progress:

        def tell(skipped: "SkippedPicture") -> None:
            progress.wipe()
            message(printable(f"skipped: {skipped}"))

        report = pack(
            source,
            args.target,
            on_error="skip" if args.skip_damaged else "raise",
            progress=progress,
            log=tell,
            nthreads=args.nthreads,
            allow_empty=args.allow_empty,
            codec=args.codec,
            crf=args.crf,
            preset=args.preset,
            lossless=args.lossless,
            tile=args.tile,
            thumb=not args.no_thumb,
            profile=args.profile,
            splits=dict(args.split) if args.split else None,
            overwrite=args.force,
        )
    code = ExitCode.OK if report.ok or args.allow_skipped else ExitCode.FAILED
    if args.json:
        print_json("bzna pack", _document(args, report, code))
    else:
        result(printable(f"{args.target}: {_summary(report)}"))
    return code


def _source(inputs: Sequence[str]) -> Any:
    """Return a folder, or the items of files.

    Raises
    ------
    FileNotFound
        One is not there.
    UsageError
        A folder and something else.
    """
    for name in inputs:
        check_input(name, "input")
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
        "skipped": [
            {"position": each.position, "name": each.name, "reason": each.reason}
            for each in report.skipped
        ],
    }
