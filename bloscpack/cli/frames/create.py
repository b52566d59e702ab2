"""``blpk frames create``: add images, videos, arrays or other clips to a frame store."""

import argparse
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from shlex import quote
from typing import Any

from ...filetypes.open import open_frames
from ...format.filekind import BLOSCPACK_KINDS
from ...frames import listing
from ...frames.ingest.ingest import (
    DEFAULTS,
    IngestOptions,
    IngestReport,
    Remark,
    check_given,
    ingest,
)
from ...frames.ingest.items import Item, VideoFile
from ...storage.file import kind_at
from ...storage.url import shown_name
from ..console.options import (
    STDIO,
    Container,
    add_force_option,
    add_json_option,
    add_locking_option,
    add_option,
    add_options,
    byte_size,
    passed_on,
    positive,
    series,
)
from ..console.output import Console, message, pretty_size, print_done, printable
from ..console.outputfile import json_log
from ..console.status import STATUS_NAMES, ExitCode, UsageError

# The help of the options that `ingest` has in its record.
_READING = {
    "keep_damaged": "store the frames of damaged videos that can be decoded",
    "check": "decode images that are stored unchanged, as a check",
}
_CODING = {
    "codec": "codec of frames (default: images unchanged, everything else lossless)",
    "preset": "for lossless (default: fast); raw: uncompressed, read as fast as a memory map",
    "quality": "for jpeg, 1 to 100 (default: 90); images are encoded again",
    "subsampling": "chroma of jpeg: full, half the width, or half the width and height (default: "
    "444)",
    "video": "video files stay video: keep their packets, or encode their frames again",
    "max_gop": "for --video copy, frames of the longest group to accept (default: %(default)s)",
    "crf": "quality of video (default: 18)",
    "gop": "frames per group of video (default: 8)",
    "encoder": "encoder of video (default: h264)",
}
_FILES = {
    "max_bytes": "write files NAME-00000.blp and so on, and start another one after SIZE bytes "
    "(suffixes K, M, G, T)",
    "resume": "add to an existing store (default)",
}
_LISTINGS = {"arrays": listing.arrays, "images": listing.images, "folders": listing.folders}
_FORMS: dict[str, dict[str, Any]] = {
    "codec": {"short": ("-c",)},
    "quality": {"type": positive},
    "max_gop": {"type": positive},
    "gop": {"type": positive},
    "max_bytes": {"metavar": "SIZE", "type": byte_size},
    "resume": {"action": argparse.BooleanOptionalAction},
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Make a frame store from images, videos, arrays or other clips, or add to one. "
        "Items that are already in it are skipped, so that the same command continues an "
        "interrupted run. The former order, OUT before INPUT, is understood where it is certain: "
        "OUT is a frame store or a new name that ends in .blp, and the last INPUT is neither."
    )
    parser.add_argument("inputs", metavar="INPUT", nargs="+", help="file or folder")
    parser.add_argument("target", metavar="OUT", help="frame store to write: new, or added to")
    _add_input_options(parser)
    _add_store_options(parser)
    add_option(
        parser,
        "-w, --workers N",
        "processes that read and encode (default: the number of processors, at most 8)",
        type=positive,
    )
    add_option(parser, "--allow-skipped", "exit with 0 even if items were skipped")
    add_option(parser, "--allow-empty", "continue if an input has no items")
    add_option(parser, "--log FILE", "write skipped items as JSON lines")
    add_locking_option(parser)
    add_json_option(parser)


def _add_input_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("inputs")
    add_option(
        group,
        "--from",
        "type of the inputs: arrays (.npy), images (each a clip), folders of images (each a "
        "clip), videos, a list (.csv, .json, .jsonl), folders of clips (default: detected)",
        choices=listing.KINDS,
        dest="kind",
    )
    add_option(
        group, "--root DIR", "folder of the paths in a list (default: the folder of the list)"
    )
    add_option(group, "--outside", "follow paths and links that lead outside the folder")
    add_option(
        group,
        "--path-column NAME",
        "column of paths in a list (default: %(default)s)",
        default="path",
    )
    add_option(
        group, "--id-column NAME", "column of ids in a list (default: %(default)s)", default="id"
    )
    add_option(
        group,
        "--frame-rate FPS",
        "for videos: drop or repeat frames (default: each frame once)",
        type=float,
    )
    _add_options(group, _READING)


def _add_store_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("store")
    _add_options(group, _CODING)
    add_option(group, "--size N", "resize frames: pixels of the shorter edge", type=positive)
    _add_options(group, _FILES)
    add_force_option(group, "replace an existing store")


def _add_options(group: Container, helps: dict[str, str]) -> None:
    add_options(group, IngestOptions, helps, _FORMS, DEFAULTS)


def _check_options(args: argparse.Namespace) -> None:
    """Refuse options that do not apply, before any input is listed."""
    try:
        check_given({**vars(args), "short_edge": args.size})
    except ValueError as err:
        raise UsageError(str(err)) from err
    if args.video is not None and (args.size is not None or args.frame_rate is not None):
        raise UsageError("--size and --frame-rate require decoded frames, without --video")
    if args.log is not None and os.path.realpath(args.log) == os.path.realpath(args.target):
        raise UsageError("--log and OUT must be different files")


def run(args: argparse.Namespace) -> int:
    """Create or continue a store."""
    args.inputs, args.target = _inputs_and_target([*args.inputs, args.target])
    _check_options(args)
    console = Console(args)
    with ExitStack() as stack:
        videos: list[VideoFile] = []
        items = _items(args, stack)
        noted = _noting(items, videos)
        log = stack.enter_context(json_log(args.log))
        progress = stack.enter_context(console.progress(unit="clips"))

        def report_remark(remark: Remark) -> None:
            progress.wipe()
            if remark.is_skipped:
                message(printable(str(remark)))
            else:
                console.note(printable(str(remark)))
            log(_remark(remark))

        report = ingest(
            list(noted) if isinstance(items, list) else noted,
            args.target,
            short_edge=args.size,
            overwrite=args.force,
            nthreads=args.nthreads,
            log=report_remark,
            progress=progress,
            **passed_on(args, *_READING, *_CODING, *_FILES, "workers", "allow_empty", "locking"),
        )
    _note_videos(args, videos, report, console)
    code = ExitCode.OK if report.ok or args.allow_skipped else ExitCode.FAILED
    document = _document(args.target, report, code)
    print_done(args, "frames create", document, args.target, _summary(report))
    return code


def _noting(items: Iterable[Item], videos: list[VideoFile]) -> Iterator[Item]:
    """Yield the items, and add those that are video files to a list."""
    for item in items:
        if isinstance(item, VideoFile):
            videos.append(item)
        yield item


def _note_videos(
    args: argparse.Namespace, videos: list[VideoFile], report: IngestReport, console: Console
) -> None:
    """Say how many bytes the packets of videos would take, if frames were stored instead."""
    skipped = {remark.id for remark in report.skipped}
    added = [item for item in videos if item.id not in skipped]
    is_decoded = args.video is None and args.codec != "video"
    if not added or not is_decoded or report.npresent or len(added) != report.nclips:
        return
    nbytes = sum(os.path.getsize(item.path) for item in added)
    if nbytes < report.cbytes:
        console.note(
            f"{pretty_size(report.cbytes)} of frames were decoded from {pretty_size(nbytes)} of "
            f"video files; --video copy keeps the packets of H.264, H.265, VP9 and AV1, and would "
            f"save about {pretty_size(report.cbytes - nbytes)}"
        )


def _inputs_and_target(names: list[str]) -> tuple[list[str], str]:
    """Return the inputs, and the store to write: the last name, in the former order the first.

    An existing file is the store only if it is a Bloscpack file and no other name can be meant, so
    that no guess and no ``--force`` writes to an input.
    """
    first, last = names[0], names[-1]
    if last == STDIO:
        raise UsageError("OUT must be the name of a file, not '-'")
    if _is_bloscpack(last) and _is_bloscpack(first):
        raise UsageError(
            f"'{first}' and '{last}' are both Bloscpack files, and either could be the one to "
            f"write; 'blpk convert {quote(first)} {quote(last)} NEW' makes a new store of both"
        )
    if _is_bloscpack(last) or not os.path.lexists(last):
        return names[:-1], last
    is_new = first.endswith(".blp") and not os.path.lexists(first)
    if is_new or _is_bloscpack(first):
        return names[1:], first
    raise UsageError(
        f"OUT stands last, and '{last}' exists but is not a frame store: name a new file or a "
        "frame store there"
    )


def _is_bloscpack(name: str) -> bool:
    """Return whether a name is that of an existing Bloscpack file, even of a damaged one."""
    return os.path.isfile(name) and kind_at(name) in BLOSCPACK_KINDS


def _items(args: argparse.Namespace, stack: ExitStack) -> Iterable[Item]:
    """Return the items of all inputs, as a list if their number is known."""
    kinds = [args.kind or listing.kind_of(name) for name in args.inputs]
    _check_kinds(args, kinds)
    pairs = zip(args.inputs, kinds, strict=True)
    found = [_items_of(name, kind, args, stack) for name, kind in pairs]
    if not args.allow_empty:
        found = [_nonempty(*pair) for pair in zip(found, args.inputs, strict=True)]
    if all(isinstance(items, list) for items in found):
        return list(chain.from_iterable(found))
    return chain.from_iterable(found)


def _nonempty(items: Iterable[Item], name: str) -> Iterable[Item]:
    """Return the items of an input, after checking, before any is read, that it has one."""
    rest = iter(items)
    for first in rest:
        return items if isinstance(items, list) else chain([first], rest)
    raise ValueError(f"{shown_name(name)}: nothing to ingest; see --from, or give --allow-empty")


def _check_kinds(args: argparse.Namespace, kinds: list[str]) -> None:
    """Refuse options for inputs of other types than those that are given."""
    for option, is_given, readers in (
        ("root", args.root is not None, {"list"}),
        ("path-column", args.path_column != "path", {"list"}),
        ("id-column", args.id_column != "id", {"list"}),
        ("frame-rate", args.frame_rate is not None, {"list", "videos"}),
    ):
        if is_given and readers.isdisjoint(kinds):
            raise UsageError(f"--{option} is for inputs of type {series(*sorted(readers))}")


def _items_of(name: str, kind: str, args: argparse.Namespace, stack: ExitStack) -> Iterable[Item]:
    if kind == "list":
        return listing.listed(
            name,
            root=args.root,
            path_column=args.path_column,
            id_column=args.id_column,
            frame_rate=args.frame_rate,
            outside=args.outside,
        )
    if kind == "videos":
        return listing.videos(name, frame_rate=args.frame_rate, outside=args.outside)
    if kind in _LISTINGS:
        return _LISTINGS[kind](name, outside=args.outside)
    return list(listing.clips(stack.enter_context(open_frames(name))))  # a type of file


def _remark(remark: Remark) -> dict[str, Any]:
    return {
        "id": remark.id,
        "source": remark.source,
        "text": remark.text,
        "skipped": remark.is_skipped,
    }


def _document(target: str, report: IngestReport, code: ExitCode) -> dict[str, Any]:
    return {
        "path": target,
        "status": STATUS_NAMES[code],
        "paths": report.paths,
        "nclips": report.nclips,
        "nframes": report.nframes,
        "cbytes": report.cbytes,
        "npresent": report.npresent,
        "nskipped": len(report.skipped),
        "remarks": [_remark(remark) for remark in report.remarks],
    }


def _summary(report: IngestReport) -> str:
    parts = [f"{report.nclips} clips of {report.nframes} frames added"]
    parts[0] += f" ({pretty_size(report.cbytes)})"
    if report.npresent:
        parts.append(f"{report.npresent} already in the store")
    if report.skipped:
        parts.append(f"{len(report.skipped)} skipped")
    return ", ".join(parts)
