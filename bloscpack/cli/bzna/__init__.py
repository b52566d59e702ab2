"""``blpk bzna``: commands for Benzina datasets."""

from ..console.options import CommandParser, Subparsers, add_command
from . import extract, info, ls, pack, sheet, verify

COMMANDS = (info, ls, verify, extract, pack, sheet)


def add_parser(subparsers: Subparsers) -> None:
    """Add the commands."""
    parser = add_command(
        subparsers,
        "bzna",
        summary="look into, check, extract and make Benzina datasets",
        description="Work with Benzina datasets: pictures, targets and names in one mp4.",
    )
    commands = parser.add_subparsers(
        title="commands",
        metavar="COMMAND",
        dest="bzna_command",
        required=True,
        parser_class=CommandParser,
    )
    for command in COMMANDS:
        command.add_parser(commands)
