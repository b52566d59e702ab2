"""``blpk convert``: copy arrays and clips of frames to another type of file."""

import argparse
from dataclasses import asdict
from typing import Any

from ..array.layout import AUTO
from ..container.defaults import DEFAULT_CODEC
from ..filetypes.convert import convert
from ..filetypes.copyjob import COPY_DEFAULTS, CopyOptions
from ..filetypes.table import ARRAY_OPTIONS, FILETYPES, TARGETS
from ..format.codec import CODECS
from ..storage.url import shown_name
from .console.inputfile import check_input, each_input, readable
from .console.options import (
    STDIO,
    add_force_option,
    add_json_option,
    add_option,
    add_options,
    count,
    passed_on,
    positive,
    series,
)
from .console.output import Console, print_done
from .console.status import ExitCode, UsageError

# The help of options of types of the core.
_CORE = {
    "preset": "for arrays in a frame store (default: fast; small for recordings)",
    "codec": f"for an array: {AUTO} or {', '.join(CODECS)} (default: {DEFAULT_CODEC})",
    "chunks": f"for an array: rows per chunk, shape of a chunk (16,256,256), or {AUTO} (default: "
    "those of SRC)",
    "access": f"for an array, with --chunks {AUTO}: what is read most",
    "clevel": "for an array: compression level, 0 (store) to 9 (default: that of the codec)",
    "shuffle": "for an array: filter before the codec (default: auto, byte for items of several "
    "bytes)",
    "keepbits": "for an array: round floats to N mantissa bits (default: keep all)",
    "stats": "for an array: store the least and greatest item, the NaN and the sum of each chunk",
}


# The help of each option that a type takes: that of its rows, joined.
_ROWS = [*(each.options for each in FILETYPES), *(each.options for each in TARGETS), _CORE]
_HELPS = {
    name: "; ".join(row[name] for row in _ROWS if row.get(name))
    for name in CopyOptions.__annotations__
    if any(name in row for row in _ROWS)
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    clips = [each.kind.name for each in FILETYPES if each.open_frames and not each.copy]
    clips.append("a folder of pictures")
    folders = (each.kind.name for each in FILETYPES if each.is_folder)
    parser.description = (
        "Copy an array, or clips of frames, to another type of file. SRC is recognised by its "
        "content, and DST by its name or --to. An array is a Bloscpack file or one of another "
        f"library, such as NumPy or HDF5. Clips are those of {series(*clips, last='or')}. JPEG "
        "images, and samples from dataset to dataset, are copied byte for byte, and everything is "
        "compared. A recording becomes a frame store with all its records and tags: its fields and "
        "frames are clips. Such a store can be converted back to a recording; the checksums are "
        "compared. --to v3 copies an array to format version 3, which bloscpack 0.16 reads."
    )
    parser.add_argument(
        "sources",
        metavar="SRC",
        nargs="+",
        help="file, folder or URL; FILE::/NAME is one array or clip of it, as an array",
    )
    parser.add_argument("target", metavar="DST", help="file or folder to write")
    types = tuple(each.name for each in TARGETS)
    add_option(
        parser,
        "--to TYPE",
        f"type of DST: {', '.join(types)} (default: by its suffix, such as .bzna, .npy or "
        ".h5; otherwise an array from an array, and a frame store from clips"
        f"{''.join(f'; from a frame store {each}, unless DST ends in .blp' for each in folders)})",
        choices=types,
    )
    add_options(parser, CopyOptions, _HELPS, _FORMS, COPY_DEFAULTS)
    add_option(parser, "--allow-empty", "convert a source without clips")
    add_option(parser, "--strict", "refuse a copy that leaves out anything that the source has")
    add_option(parser, "--no-verify", "do not compare the copy with the source")
    add_force_option(parser, "overwrite a file; a folder is never replaced")
    add_json_option(parser)


def _chunks(text: str) -> int | tuple[int, ...] | str:
    """Parse rows per chunk, or a shape with commas."""
    if text == AUTO:
        return AUTO
    sides = tuple(count(side) for side in text.split(","))
    return sides if "," in text else sides[0]


_FORMS: dict[str, dict[str, Any]] = {
    "videos_per_chunk": {"type": positive},
    "codec": {"metavar": "CODEC", "choices": ("hevc", "h264", "av1", AUTO, *CODECS)},
    "tile": {"metavar": "PIXELS"},
    "chunks": {"metavar": "CHUNKS", "type": _chunks},
    "clevel": {"metavar": "LEVEL", "type": int, "choices": range(10)},
}


def run(args: argparse.Namespace) -> int:
    """Convert."""
    array_targets = {each.name for each in TARGETS if each.is_array}
    several = {each.name for each in TARGETS if each.has_names}
    is_array = args.to in array_targets or any(
        value not in (None, False) for value in passed_on(args, *ARRAY_OPTIONS).values()
    )
    if args.target == STDIO:
        raise UsageError("DST must be the name of a file or folder, not '-'")
    places = each_input(args.sources)
    if is_array and len(places) > 1:
        raise UsageError("an array is copied from one file")
    console = Console(args)
    for place in places:
        check_input(place, "file")
    # A list of sources holds paths only: standard input must be the only source.
    source: Any = [*map(str, places)] if len(places) > 1 else readable(places[0])
    with console.progress(unit="clips") as progress:
        copied = convert(
            source,
            args.target,
            to=args.to,
            verify=not args.no_verify,
            progress=progress,
            overwrite=args.force,
            nthreads=args.nthreads,
            **passed_on(args, *_HELPS, "allow_empty", "strict"),
        )
    document = {
        "paths": [*map(shown_name, args.sources)],
        "target": shown_name(args.target),
        **asdict(copied),
    }
    rounded = "" if copied.lossless else f", rounded to {args.keepbits} mantissa bits"
    if copied.kind in several:
        text = f"{copied.clips} array{'s' * (copied.clips != 1)}{rounded}"
    elif copied.kind in array_targets:
        text = f"array of {copied.frames} rows{rounded}"
    else:
        loss = "" if copied.lossless else "; others are not exact"
        text = (
            f"{copied.clips} clips, {copied.frames} frames, {copied.images} of them images copied "
            f"byte for byte{loss}"
        )
    print_done(args, "convert", document, shown_name(args.target), text)
    return ExitCode.OK
