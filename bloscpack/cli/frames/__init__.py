"""``blpk frames``: commands for clips of frames."""

from ..console.options import CommandParser, Subparsers, add_command
from . import cat, create, info, ls, sheet, verify

COMMANDS = (
    create,
    info,
    ls,
    cat,
    verify,
    sheet,
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
