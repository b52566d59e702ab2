"""``blpk vrs``: commands for VRS recordings."""

from ..console.options import CommandParser, Subparsers, add_command
from . import check, checksum, copy, extract, fixindex, info, listrecords, printrecords

COMMANDS = (
    info,
    listrecords,
    printrecords,
    check,
    checksum,
    extract,
    copy,
    fixindex,
)


def add_parser(subparsers: Subparsers) -> None:
    """Add the commands."""
    parser = add_command(
        subparsers,
        "vrs",
        summary="look into, check, extract, copy and repair VRS recordings",
        description="Work with VRS recordings: records of sensors with time stamps.",
    )
    commands = parser.add_subparsers(
        title="commands",
        metavar="COMMAND",
        dest="vrs_command",
        required=True,
        parser_class=CommandParser,
    )
    for command in COMMANDS:
        command.add_parser(commands)
