"""``blpk vrs``: commands for VRS recordings."""

from . import (
    vrs_check,
    vrs_checksum,
    vrs_copy,
    vrs_extract,
    vrs_fixindex,
    vrs_info,
    vrs_list,
    vrs_print,
)
from .options import CommandParser, Subparsers, add_command

COMMANDS = (
    vrs_info,
    vrs_list,
    vrs_print,
    vrs_check,
    vrs_checksum,
    vrs_extract,
    vrs_copy,
    vrs_fixindex,
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
