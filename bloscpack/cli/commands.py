"""Table of commands: their names and summaries, and the module that runs each.

``blpk --help`` needs only this table. The module of a command is imported when the command is
named, so that ``blpk ls`` does not wait for the code of the others. It has two functions:
``add_arguments(parser)``, which also sets the description, and ``run(args)``, which returns the
exit code. A verb in a group is that for every type, for files of the types of the group.
"""

import importlib
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from ..parallel.imports import importing
from .console.options import CommandParser, Subparsers, add_command


class Command(NamedTuple):
    """Row of the table."""

    name: str  # name on the command line
    summary: str  # for the list of commands in the help
    module: str  # name below ``bloscpack``
    aliases: tuple[str, ...] = ()  # other names
    options: str = ""  # module that adds options of a verb for one type, by ``add_options(parser)``


class Group(NamedTuple):
    """Command that has only subcommands, like ``blpk frames``."""

    name: str
    summary: str
    description: str
    kinds: tuple[str, ...]  # types of files that its verbs take; the first is named in errors
    commands: tuple[Command, ...]


COMMANDS: tuple[Command | Group, ...] = (
    Command("compress", "compress a file", "cli.original.compress", ("c",)),
    Command("decompress", "decompress a file", "cli.original.decompress", ("d",)),
    Command("append", "append to a compressed file", "cli.original.append", ("a",)),
    Command("info", "describe files", "cli.info", ("i",)),
    Command("verify", "check files for damage", "cli.verify"),
    Command("recover", "save what is intact of a damaged file", "cli.recover"),
    Command("ls", "list files", "cli.ls"),
    Command("cat", "print part of a file", "cli.cat"),
    Command("sheet", "make one picture of many frames, slices or samples", "cli.sheet"),
    Command("show", "show part of a file in the terminal", "cli.show"),
    Command("view", "show files as a page in the browser", "view.cli"),
    Command("tune", "try settings on a sample of a file, and name the best", "cli.tune"),
    Group(
        "frames",
        "make, list, read, check and show stores of clips of frames",
        "Work with clips of frames, in a frame store or a gulp directory.",
        ("frames", "gulp", "vrs", "bzna"),
        (
            Command(
                "create",
                "put images, videos, arrays or other clips into a store",
                "cli.frames.create",
            ),
            Command("info", "describe files of clips", "cli.info"),
            Command("ls", "list clips", "cli.frames.ls"),
            Command("cat", "print frames of a clip", "cli.cat"),
            Command("verify", "check clips for damage", "cli.verify"),
            Command("sheet", "make one picture of many frames", "cli.sheet"),
            Command("bench", "measure a loader, and say what limits it", "cli.frames.bench"),
        ),
    ),
    Group(
        "gulp",
        "make, check and describe gulp directories",
        "Work on gulp directories, as GulpIO2 writes them.",
        ("gulp",),
        (
            Command(
                "ingest",
                "make a gulp directory from images or videos, or add to one",
                "gulp.cli.ingest",
            ),
            Command("verify", "check directories for damage", "cli.verify", ("check",)),
            Command("info", "describe directories", "cli.info"),
        ),
    ),
    Group(
        "vrs",
        "list, check, extract, copy and repair VRS recordings",
        "Work with VRS recordings: records of sensors with time stamps.",
        ("vrs",),
        (
            Command("info", "describe recordings", "cli.info", options="vrs.cli.info"),
            Command("list", "list records", "vrs.cli.listrecords", ("ls",)),
            Command("print", "print records", "vrs.cli.printrecords"),
            Command("verify", "check recordings for damage", "cli.verify", ("check",)),
            Command("checksum", "print the checksum of tags and records", "vrs.cli.checksum"),
            Command("extract", "write images, audio and metadata into files", "vrs.cli.extract"),
            Command("copy", "copy all or part of a recording", "vrs.cli.copy"),
            Command("merge", "merge several recordings into one", "vrs.cli.merge"),
            Command("fix-index", "rebuild a missing or wrong index", "vrs.cli.fixindex"),
        ),
    ),
    Group(
        "bzna",
        "list, check, extract and make Benzina datasets",
        "Work with Benzina datasets: pictures, targets and names in one mp4.",
        ("bzna",),
        (
            Command("info", "describe datasets", "cli.info"),
            Command("ls", "list samples", "benzina.cli.ls"),
            Command("verify", "check datasets for damage", "cli.verify"),
            Command("extract", "write samples into files", "benzina.cli.extract"),
            Command("pack", "make a dataset from pictures", "benzina.cli.pack"),
            Command(
                "sheet",
                "make one picture of many thumbnails",
                "cli.sheet",
                options="benzina.cli.sheet",
            ),
        ),
    ),
    Command(
        "convert", "copy clips, datasets and recordings to files of another kind", "cli.convert"
    ),
    Command(
        "export",
        "write references that let Zarr readers read the chunks of an array",
        "cli.array.export",
    ),
    Command("completion", "print a script that completes command lines", "cli.completion"),
)


def add_commands(
    subparsers: Subparsers,
    commands: Iterable[Command | Group] = COMMANDS,
    kinds: tuple[str, ...] = (),
) -> None:
    """Add a parser for each command; a parser adds its arguments when it is used.

    `kinds` are the types of files that a verb takes; all by default.
    """
    for command in commands:
        if isinstance(command, Group):
            complete = partial(_complete_group, command)
            add_command(subparsers, command.name, summary=command.summary, complete=complete)
        else:
            add_command(
                subparsers,
                command.name,
                *command.aliases,
                summary=command.summary,
                complete=partial(_complete, command, kinds),
            )


def _complete_group(group: Group, parser: CommandParser) -> None:
    parser.description = group.description
    subparsers = parser.add_subparsers(
        title="commands",
        metavar="COMMAND",
        dest=f"{group.name}_command",
        required=True,
        parser_class=CommandParser,
    )
    add_commands(subparsers, group.commands, group.kinds)


def _complete(command: Command, kinds: tuple[str, ...], parser: CommandParser) -> None:
    module = command_module(command.module)
    module.add_arguments(parser)
    if command.options:
        command_module(command.options).add_options(parser)
    parser.set_defaults(run=module.run, kinds=kinds)


def command_module(name: str) -> Any:
    """Return the module of a command, by its name below ``bloscpack``."""
    with importing:
        return importlib.import_module(f"bloscpack.{name}")
