"""``blpk info``: describe files of any type, by the module ``info`` of each."""

import argparse
from typing import Any

from ..storage.file import Place
from .commands import command_module
from .console.description import Description
from .console.inputfile import each_input, open_item
from .console.options import add_classic_option, add_files, add_json_option
from .console.output import error, is_for_people, print_json, printable, result, results
from .console.status import EXPECTED, STATUS_NAMES, ExitCode, describe, exit_code, most_severe


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Describe files of any type. Of an array, print header, first offsets, metadata and the "
        "header of the first chunk; of others the arrays of an archive, the clips of a frame store "
        "or a folder, the streams of a recording and the samples of a dataset. FILE::/NAME is one "
        "array of an archive or one clip. On a terminal, arrays are summed up."
    )
    add_files(parser)
    add_json_option(parser)
    add_classic_option(parser)


def run(args: argparse.Namespace) -> int:
    """Describe each file."""
    places = each_input(args.files)
    if len(places) == 1:
        code, document = _show(args, places[0])
        if args.json:
            print_json("info", document)
        return code
    codes: list[ExitCode] = []
    documents: list[dict[str, Any]] = []
    for place in places:
        if codes and is_for_people(args):
            result("")
        if not args.json:
            result(printable(f"{place.shown}:"))
        try:
            code, document = _show(args, place)
        except BrokenPipeError:  # an OSError too, but of our output: it ends the command
            raise
        except EXPECTED as err:
            code, document = exit_code(err), {"path": place.shown, "errors": [describe(err)]}
            error(describe(err))
        codes.append(code)
        documents.append({"status": STATUS_NAMES[code], **document})
    if args.json:
        print_json("info", {"files": documents})
    return most_severe(codes)


def _show(args: argparse.Namespace, place: Place) -> tuple[ExitCode, dict[str, Any]]:
    """Print the description of a file, unless it is asked for as JSON, and return that."""
    filetype, source, inner = open_item(place, args.kinds)
    args.file_ = str(place)
    if inner:
        about: Description = command_module("cli.frames.info").about_clip(
            args, filetype, source, inner
        )
    else:
        about = filetype.about(args, source)
    messages = [describe(err) for err in about.errors]
    for message in messages:
        error(message)
    if not args.json:
        results(about.lines(is_for_people=is_for_people(args)))
    document = {"path": place.shown, **about.document, "errors": messages}
    return most_severe(map(exit_code, about.errors)), document
