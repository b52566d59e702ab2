"""``blpk bzna``: commands for Benzina datasets."""

from . import bzna_extract, bzna_info, bzna_ls, bzna_pack, bzna_sheet, bzna_verify
from .options import CommandParser, Subparsers, add_command

COMMANDS = (bzna_info, bzna_ls, bzna_verify, bzna_extract, bzna_pack, bzna_sheet)


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
