"""``blpk info``: describe files of any type; the module ``info`` of the type prints it."""

import argparse
from typing import Any

from ..storage.url import shown_name
from .commands import command_module
from .console.inputfile import each_input, open_item
from .console.options import add_classic_option, add_files, add_json_option
from .console.output import error, is_for_people, print_json, printable, result
from .console.status import EXPECTED, STATUS_NAMES, ExitCode, describe, exit_code, most_severe


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Describe files of any type. Of an array, print header, first offsets, metadata and the "
        "header of the first chunk; of others the arrays of an archive, the clips of a frame "
        "store, the items of a Gulp directory, the streams of a VRS recording and the samples of a "
        "Benzina dataset. FILE::/NAME is one array of an archive or one clip. On a terminal, "
        "files are summed up."
    )
    add_files(parser)
    add_json_option(parser)
    add_classic_option(parser)


def run(args: argparse.Namespace) -> int:
    """Describe each file."""
    names = each_input(args.files)
    if len(names) == 1:
        args.documents = []  # the module of the type adds one to it
        code = _show(args, names[0])
        if args.json:
            print_json("info", args.documents[0])
        return code
    codes: list[ExitCode] = []
    documents: list[dict[str, Any]] = []
    for name in names:
        args.documents = found = []
        if codes and is_for_people(args):
            result("")
        if not args.json:
            result(printable(f"{shown_name(name)}:"))
        try:
            code = _show(args, name)
        except BrokenPipeError:  # an OSError too, but of our output: it ends the command
            raise
        except EXPECTED as err:
            code = exit_code(err)
            error(describe(err))
            found.append({"error": describe(err)})
        codes.append(code)
        head = {"path": shown_name(name), "status": STATUS_NAMES[code]}
        documents += [head | each for each in found]
    if args.json:
        print_json("info", {"files": documents})
    return most_severe(codes)


def _show(args: argparse.Namespace, name: str) -> ExitCode:
    filetype, source, inner = open_item(name, args.kinds)
    args.file_ = name
    if inner:
        return ExitCode(command_module("frames.info").show_clip(args, filetype, source, inner))
    return ExitCode(command_module(f"{filetype.name}.info").show(args, source))
