"""``blpk frames``: commands for clips of frames."""

from . import frames_create
from .options import Subparsers, add_command

COMMANDS = (frames_create,)


def add_parser(subparsers: Subparsers) -> None:
    """Add the commands."""
    parser = add_command(
        subparsers,
        "frames",
        summary="clips of frames: make a store of them",
        description="Work with clips of frames.",
    )
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="frames_command", required=True
    )
    for command in COMMANDS:
        command.add_parser(commands)
