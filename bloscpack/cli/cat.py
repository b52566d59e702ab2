"""``blpk cat``: write the selected part of a file of any type to standard output or a file."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from ..exceptions import WrongKindError
from ..filetypes.table import ARCHIVES, ARRAYS
from ..media import image
from ..storage.file import Place
from ..storage.protocol import closed_on_error
from ..storage.url import shown_name
from .commands import command_module
from .console.arrayout import IMAGES, Part, add_output_options, check_suffix, form_of, write_part
from .console.describe import dtype_text
from .console.inputfile import open_item
from .console.options import STDIO, add_json_option, add_option, count
from .console.output import Console, print_json
from .console.outputfile import check_output, open_output
from .console.selection import parse_selection_text, strip_brackets, take_name
from .console.status import ExitCode, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write the items of a selection in C order, or the bytes of a chunk. "
        "A file without array metadata is an array of its bytes.\n\n"
        "FILE::/NAME is an array of an archive, a clip, the images of a stream or a field of a "
        "recording (STREAM/FIELD), or the picture of a sample of a dataset. SELECTION then begins "
        "with the frames. Without a name, SELECTION is of the records of a recording, whose "
        "payloads are written, or one sample of a dataset, whose stored mp4 is written. A pattern "
        "of several arrays or stores is read as one."
    )
    parser.add_argument(
        "file_", metavar="FILE", help="file, folder, URL or pattern, - for standard input"
    )
    # The first of them is the selection, if it is alone and can be one: see `take_name`.
    parser.add_argument("selection", metavar="NAME", nargs="?", help="the same as FILE::/NAME")
    parser.add_argument(
        "second",
        metavar="SELECTION",
        nargs="?",
        help="a numpy index of integers, slices and ..., like '10:20,::2' (default: everything)",
    )
    add_option(
        parser,
        "--chunk N",
        "of an array: chunk N, counted from 0, as a one-dimensional array of its items",
        type=count,
    )
    add_option(
        parser,
        "--version N",
        "of an array: version N of those of 'blpk log', or counted from the newest, -1",
        type=int,
        default=-1,
    )
    add_option(
        parser,
        "--select FRAMES",
        "of a clip, instead of SELECTION: a number, a range like 0:32:2, or some like 3,4,9",
    )
    kind = add_output_options(parser)
    add_option(kind, "--image", "of a clip: write the JPEG or PNG file of one frame")
    add_json_option(kind)


def run(args: argparse.Namespace) -> int:
    """Write the selection."""
    console = Console(args)
    places = take_name(args)
    given = [each for each in (args.selection, args.chunk, args.select) if each is not None]
    if len(given) > 1:
        raise UsageError("SELECTION, --chunk and --select cannot be combined")
    parse_selection_text(args.selection)  # refuses a wrong one before the file is opened
    if not args.json:
        is_safe = args.text and args.output == STDIO
        check_output(args.output, places, console, force=args.force or is_safe)
    form = "raw" if args.image else form_of(args)
    with _open_part(args, places) as part:
        if args.select is not None and not hasattr(part, "is_frame"):
            raise UsageError("--select is for the frames of a clip: give SELECTION instead")
        return _write(args, console, part, form)


def _write(args: argparse.Namespace, console: Console, part: Part, form: str) -> int:
    """Write a part or, with ``--json``, print its shape."""
    if args.json:
        chosen = args.selection or args.select
        document = {
            "path": shown_name(args.file_),
            "selection": chosen and strip_brackets(chosen),
            "chunk": args.chunk,
            "shape": part.shape,
            "dtype": dtype_text(part.dtype),
            "nbytes": part.nbytes,
        }
        print_json("cat", document)
        return ExitCode.OK
    stored = _stored_image(args, part, form)
    if stored is not None:
        with open_output(args.output) as sink:
            sink.write(stored)
        return ExitCode.OK
    with open_output(args.output, is_ordered=True) as sink, console.progress() as progress:
        write_part(sink, part, progress, form)
    return ExitCode.OK


@contextmanager
def _open_part(args: argparse.Namespace, places: list[Place]) -> Iterator[Part]:
    """Open the part of a file, or of several as one."""
    filetype, source, inner = open_item(places[0], args.kinds)
    with closed_on_error(source):
        if filetype not in (ARRAYS, ARCHIVES):
            for option, is_given in (
                ("chunk", args.chunk is not None),
                ("version", args.version != -1),
            ):
                if is_given:
                    raise UsageError(
                        f"--{option} is for an array, and '{places[0]}' is {filetype.kind.name}"
                    )
        # Context managers, which read nothing before they are entered: they close the source.
        if len(places) == 1:
            opened = filetype.open_part(args, filetype, source, inner)
        elif filetype.name in ("array", "frames"):
            source.close()  # only its type was needed: they open all files by name
            opened = command_module(f"cli.{filetype.name}.cat").open_parts(
                args, [each.path for each in places], inner
            )
        else:
            raise WrongKindError(
                f"{filetype.kind.name}, and the pattern matches {len(places)} files: several can "
                "only be read as one if they are arrays or frame stores"
            ).at(path=places[0].shown)
    with opened as part:
        yield part


def _stored_image(args: argparse.Namespace, part: Part, form: str) -> bytes | None:
    """Return the image file of the frame that is selected, if it is to be copied as it is."""
    if not args.image and form not in IMAGES:
        return None
    if not getattr(part, "is_frame", True):
        raise UsageError(
            "an image holds one frame: select it by its number; a .npy file holds several, and "
            "'blpk sheet' makes one picture of several"
        )
    stored: bytes | None = getattr(part, "stored_image", None)
    if args.image:
        if stored is None:
            raise UsageError(
                "--image is for a frame that is stored as a JPEG or PNG image; 'blpk sheet' and "
                "-o FILE.png make a picture of others"
            )
        check_suffix(args.output, image.probe(stored).kind)
        return stored
    return stored if stored is not None and image.probe(stored).kind == form else None
