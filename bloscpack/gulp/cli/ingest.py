"""``blpk gulp ingest KIND``: write images and videos into a gulp directory.

Each kind is one of the eight scripts of GulpIO2, with its options and defaults.
"""

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ...plugin import (
    EXPECTED,
    CommandParser,
    Console,
    ExitCode,
    Subparsers,
    add_command,
    add_json_option,
    add_option,
    available_cpus,
    json_log,
    message,
    positive,
    print_done,
    printable,
    shown_name,
)

if TYPE_CHECKING:
    from ..ingest.baseadapter import ListedAdapter
    from ..ingest.ingestor import IngestReport, SkippedItem


class Kind(NamedTuple):
    """Kind of input."""

    summary: str  # description of the input
    # Name of the adapter class, called with ``(input, [folder,] [output,] **options)``.
    adapter: str
    inputs: tuple[tuple[str, str], ...]  # the arguments before the output directory
    options: dict[str, Any]  # defaults of the options in `_OWN_OPTIONS` that it has
    takes_output: bool = True  # whether the output directory is passed to the adapter
    size: str = "frame_size"  # parameter of the adapter for the size of frames


_JSON = ("LIST", "JSON file")
_VIDEOS = ("VIDEOS", "folder of the videos")
KINDS = {
    "json-videos": Kind(
        "videos <id>/*.mp4 listed in a JSON file",
        "Custom20BNJsonVideoAdapter",
        (("LIST", "JSON file, .json or .json.gz: a list of objects"), _VIDEOS),
        options={"frame_rate": 8, "label_name": "template", "keep_damaged": False},
    ),
    "csv-webm": Kind(
        "videos <id>.webm listed in a CSV file",
        "Custom20BNCsvWebmAdapter",
        (("LIST", "CSV file, rows id;label"), _VIDEOS),
        options={"frame_rate": 12, "keep_damaged": False},
    ),
    "csv-jpeg": Kind(
        "clips <id>/*.jpg listed in a CSV file",
        "Custom20BNCsvJpegAdapter",
        (("LIST", "CSV file, rows id;label"), ("CLIPS", "folder of the clips")),
        options={"keep_jpegs": False},
    ),
    "image-folder": Kind(
        "images in folders, which are the labels",
        "ImageFolderAdapter",
        (("IMAGES", "folder of the folders"),),
        options={"keep_jpegs": False, "extension": None},
        size="img_size",
    ),
    "image-list": Kind(
        "images listed in a file",
        "ImageListAdapter",
        (("LIST", "file of lines path,label"),),
        options={"keep_jpegs": False, "root_path": ""},
        size="img_size",
    ),
    "video-folder": Kind(
        "videos in folders, which are the labels",
        "VideoFolderAdapter",
        (("VIDEOS", "folder of the folders"),),
        options={"keep_damaged": False, "extension": None},
    ),
    "kinetics": Kind(
        "trimmed videos of Kinetics",
        "KineticsAdapter",
        (_JSON, _VIDEOS),
        takes_output=False,
        options={"keep_damaged": False},
    ),
    "activitynet": Kind(
        "videos of Activitynet",
        "ActivitynetAdapter",
        (_JSON, _VIDEOS),
        takes_output=False,
        options={"keep_damaged": False, "phase": "training"},
    ),
}
# Options that only some kinds have, by name with underscores: value, help, how it is parsed.
_OWN_OPTIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "frame_rate": (
        "RATE",
        "frames per second; 0 takes every frame (default: %(default)s)",
        {"type": float},
    ),
    "label_name": ("NAME", "key of the label (default: %(default)s)", {}),
    "keep_damaged": (
        "",
        "store the frames of damaged videos that can be decoded (default: skip the video)",
        {},
    ),
    "keep_jpegs": (
        "",
        "store JPEG files unchanged, neither decoded nor encoded; not with --size",
        {},
    ),
    "extension": (".EXT", "suffix of file names; may be repeated", {"action": "append"}),
    "root_path": ("FOLDER", "folder of the paths", {}),
    "phase": ("NAME", "the subset (default: %(default)s)", {}),
}
# Parameters of the adapters that have another name than the option.
_PARAMETERS = {"extension": "file_extensions", "root_path": "root_folder"}
_MAX_DEFAULT_WORKERS = 4
# Names of the input arguments in the namespace, in order.
_INPUTS = ("input", "folder")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the description, and a subcommand for each kind of input."""
    parser.description = "Read images or videos and write them into new chunks of a gulp directory."
    kinds = parser.add_subparsers(
        title="kinds", metavar="KIND", dest="kind", required=True, parser_class=CommandParser
    )
    for name, kind in KINDS.items():
        _add_kind(kinds, name, kind)


def _add_kind(kinds: Subparsers, title: str, kind: Kind) -> None:
    parser = add_command(kinds, title, summary=kind.summary, description=f"Ingest {kind.summary}.")
    for dest, (metavar, text) in zip(_INPUTS, kind.inputs, strict=False):
        parser.add_argument(dest, metavar=metavar, help=text)
    parser.add_argument(
        "output", metavar="DIR", help="gulp directory, created if it does not exist"
    )
    add_option(
        parser,
        "--per-chunk, --videos-per-chunk, --images-per-chunk N",
        "items per chunk (default: %(default)s)",
        type=positive,
        default=100,
    )
    add_option(
        parser,
        "--workers, --num-workers N",
        "number of processes (default: the number of processors, at most 4)",
        type=positive,
        default=None,
    )
    add_option(
        parser,
        "--size, --frame-size, --image-size PIXELS",
        "pixels of the shorter edge; -1 does not resize frames (default)",
        type=int,
        default=-1,
    )
    add_option(parser, "--shuffle", "shuffle the items")
    add_option(
        parser, "--seed N", "seed of the shuffle (default: %(default)s)", type=int, default=0
    )
    add_option(
        parser,
        "--remove-duplicates",
        "skip items whose ids are already in the directory; otherwise they are refused",
    )
    add_option(
        parser, "--allow-skipped", "exit with 0 even if items were skipped that cannot be read"
    )
    add_option(parser, "--allow-empty", "exit with 0 even if there is nothing to ingest")
    add_option(parser, "--log FILE", "write skipped items as JSON lines")
    for name, default in kind.options.items():
        value, text, form = _OWN_OPTIONS[name]
        add_option(parser, f"--{name.replace('_', '-')} {value}", text, default=default, **form)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Ingest."""
    import random

    from ..chunk.ids import existing_ids
    from ..ingest.ingestor import IngestReport

    console = Console(args)
    random.seed(args.seed)  # the adapters shuffle by the global generator, as GulpIO2 does
    adapter = _make_adapter(KINDS[args.kind], args)
    if not len(adapter) and not args.allow_empty:
        raise ValueError(
            f"{shown_name(args.input)}: nothing to ingest; check the folder or list, or give "
            "--allow-empty"
        )
    if args.remove_duplicates:
        adapter.leave_out(existing_ids(args.output))
    report = IngestReport()
    with json_log(args.log) as log:
        if len(adapter):
            report = _ingest(console, adapter, args, log)
        else:
            console.note(f"{shown_name(args.input)}: nothing new to ingest")
    text = f"{report.items} items, {report.frames} frames in {len(report.chunks)} chunks"
    print_done(args, "gulp ingest", _document(args, report), args.output, text)
    if report.skipped and not args.allow_skipped:
        return ExitCode.FAILED
    is_enough = report.items or args.remove_duplicates or args.allow_empty
    return ExitCode.OK if is_enough else ExitCode.FAILED


def _make_adapter(kind: Kind, args: argparse.Namespace) -> "ListedAdapter":
    from .. import adapters

    inputs = [getattr(args, dest) for dest in _INPUTS[: len(kind.inputs)]]
    if kind.takes_output:
        inputs.append(args.output)
    options: dict[str, Any] = {kind.size: args.size, "shuffle": args.shuffle}
    for name in kind.options:
        value = getattr(args, name)
        if value is not None:
            options[_PARAMETERS.get(name, name)] = value
    adapter: ListedAdapter = getattr(adapters, kind.adapter)(*inputs, **options)
    return adapter


def _ingest(
    console: Console,
    adapter: "ListedAdapter",
    args: argparse.Namespace,
    log: Callable[[Mapping[str, Any]], None],
) -> "IngestReport":
    from ..ingest.ingestor import GulpIngestor

    def on_skip(item: "SkippedItem") -> None:
        log(item._asdict())
        message(printable(f"skipped: {item.id}: {item.reason}"))

    with console.progress(unit="chunks") as bar:
        ingestor = GulpIngestor(
            adapter,
            args.output,
            args.per_chunk,
            args.workers or min(_MAX_DEFAULT_WORKERS, available_cpus()),
            progress=bar,
            on_skip=on_skip,
        )
        try:
            report = ingestor()
        except EXPECTED as err:
            for note in getattr(err, "__notes__", []):
                if not note.startswith("bloscpack."):  # commands have a hint of their own
                    message(printable(note))
            raise
    if report.nresumed:
        console.note(
            f"{args.output}: continued an ingest, interrupted after {report.nresumed} chunks"
        )
    return report


def _document(args: argparse.Namespace, report: "IngestReport") -> dict[str, Any]:
    return {
        "path": args.output,
        "kind": args.kind,
        "chunks": report.chunks,
        "items": report.items,
        "frames": report.frames,
        "skipped": [item._asdict() for item in report.skipped],
        "resumed_chunks": report.nresumed,
    }
