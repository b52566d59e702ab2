"""Table of commands: their names and summaries, and the module that runs each.

``blpk --help`` needs only this table. A verb in a group is that for every type, for files of the
types of the group.
"""

import importlib
from collections.abc import Iterable
from functools import partial
from typing import Any

from ..filetypes import table
from ..filetypes.table import FILETYPES, Command, Group
from ..parallel.imports import importing
from .console.options import CommandParser, Subparsers, add_command

COMMANDS: tuple[Command | Group, ...] = (
    Command("compress", "compress a file", "cli.original.compress", ("c",)),
    Command("decompress", "decompress a file", "cli.original.decompress", ("d",)),
    Command("append", "append to a compressed file", "cli.original.append", ("a",)),
    Command("info", "describe files", "cli.info", ("i",)),
    Command("verify", "check files for damage", "cli.verify"),
    Command("recover", "save what is intact of a damaged file", "cli.recover"),
    Command("set", "change items of an array", "cli.set"),
    Command("rm", "remove parts of files", "cli.rm"),
    Command("mv", "rename a part of a file", "cli.mv"),
    Command("compact", "write files again without what was removed", "cli.compact"),
    Command("log", "list the versions of a file", "cli.log"),
    Command("ls", "list files", "cli.ls"),
    Command("cat", "print part of a file", "cli.cat"),
    Command("sheet", "make one picture of many frames, slices or samples", "cli.sheet"),
    Command("show", "show part of a file in the terminal", "cli.show"),
    Command("tune", "try settings on a sample of a file, and name the best", "cli.tune"),
    Group(
        "frames",
        "make, list, read, check and show stores of clips of frames",
        "Work with clips of frames, in a frame store or in files and folders of other types.",
        tuple(each.name for each in FILETYPES if each.open_frames is not None),
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
    *table.COMMANDS,
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
