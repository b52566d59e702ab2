"""``blpk frames verify``: check every frame of sources of clips for damage."""

import argparse
from pathlib import Path
from typing import Any

from ...damage.report import Report
from ...filetypes.open import open_frames
from ...filetypes.verify import verify
from ...frames.verify import scan
from ...storage.url import shown_name
from ..console.eachfile import run_each
from ..console.endpoint import STDIO, check_input, read_any
from ..console.options import add_json_option
from ..console.output import Console, printable, result
from ..console.status import ExitCode
from ..inputs.datasets import is_dataset_name
from ..inputs.storeinfo import is_store


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the description and the arguments."""
    parser.description = (
        "Read the metadata and every frame of every clip, and every other byte of a frame store, "
        "and report what is damaged."
    )
    parser.add_argument("files", metavar="STORE", nargs="+", help="frame store or gulp directory")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Verify each source."""
    console = Console(args)

    def check(name: str) -> tuple[ExitCode, dict[str, Any]]:
        damage, lines = _verify(console, name, args.nthreads)
        if not args.json:
            for line in lines or ["ok"]:
                result(printable(f"{shown_name(name)}: {line}"))
        return ExitCode.DAMAGED if damage else ExitCode.OK, {"damage": damage}

    return run_each(args, "frames verify", check, {"damage": []})


def _verify(
    console: Console, name: str, nthreads: int | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """Verify one source; return its damage as JSON fields and as lines."""
    check_input(name, "file")
    is_other = (name != STDIO and Path(name).is_dir()) or is_dataset_name(name)
    where = name if is_other else read_any(name)
    if is_other or not is_store(where):
        damage = _scan(console, where, nthreads)
        return damage, [each["what"] for each in damage]
    report = _verify_store(console, where, nthreads)
    for notice in report.notices:
        console.note(f"{shown_name(name)}: {notice}")
    damage = [_document(each.what, each.clip, each.frames) for each in report.damage]
    return damage, [str(each) for each in report.damage]


def _verify_store(console: Console, where: Any, nthreads: int | None) -> Report:
    """Check every byte of a frame store, including index segments that were merged since."""
    with console.progress() as progress:
        return verify(where, nthreads=nthreads, progress=progress)


def _scan(console: Console, where: Any, nthreads: int | None) -> list[dict[str, Any]]:
    """Read every frame of a source that is not a frame store."""
    with open_frames(where, nthreads=nthreads) as source, console.progress(unit="clips") as bar:
        return [
            _document(
                # Without the path, which each line starts with.
                str(fault.error.args[0]) if fault.error.args else str(fault.error),
                fault.clip,
                None if fault.frame is None else (fault.frame, fault.frame + 1),
            )
            for fault in scan(source, progress=bar)
        ]


def _document(what: str, clip: str | None, frames: tuple[int, int] | None) -> dict[str, Any]:
    return {"clip": clip, "frames": frames and list(frames), "what": what}
