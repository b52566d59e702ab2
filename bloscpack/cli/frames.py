"""``blpk frames``: commands for clips of frames."""

from . import (
    frames_cat,
    frames_create,
    frames_info,
    frames_ls,
    frames_sheet,
    frames_verify,
)
from .options import CommandParser, Subparsers, add_command

COMMANDS = (
    frames_create,
    frames_info,
    frames_ls,
    frames_cat,
    frames_verify,
    frames_sheet,
)


def add_parser(subparsers: Subparsers) -> None:
    """Add the commands."""
    parser = add_command(
        subparsers,
        "frames",
        summary="make, list, read, check and show stores of clips of frames",
        description="Work with clips of frames, in a frame store or a gulp directory.",
    )
    commands = parser.add_subparsers(
        title="commands",
        metavar="COMMAND",
        dest="frames_command",
        required=True,
        parser_class=CommandParser,
    )
    for command in COMMANDS:
        command.add_parser(commands)
