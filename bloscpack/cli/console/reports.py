"""Reports on files: lines or a JSON object for each file, and the most severe exit code."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...filetypes.table import FILETYPES
from ...storage.file import Place
from ...storage.url import shown_name
from .inputfile import each_input
from .output import (
    Console,
    error,
    is_for_people,
    print_done,
    print_json,
    printable,
    result,
    results,
)
from .status import EXPECTED, STATUS_NAMES, ExitCode, describe, exit_code, most_severe

if TYPE_CHECKING:
    from ...damage.report import Damage, Report

Check = Callable[[Place], tuple[ExitCode, dict[str, Any]]]

_DAMAGE = (
    *("what", "index", "offset", "end", "first", "last", "rows", "clip", "frames", "region"),
    *("member", "file", "record", "stream"),
)


def report_document(report: "Report | None") -> dict[str, Any]:
    """Return the JSON fields of a report, or those of a file that cannot be verified."""
    fields = {key: getattr(report, key, None) for key in ("nchunks", "nbytes", "trailer")}
    damage = damage_documents(report.damage if report else ())
    return {**fields, "damage": damage, "notices": report.notices if report else []}


def damage_documents(damage: "Iterable[Damage]") -> list[dict[str, Any]]:
    """Return the JSON fields of each damage."""
    return [{key: getattr(each, key, None) for key in _DAMAGE} for each in damage]


def verify_each(args: argparse.Namespace, verify: "Callable[[Place], Report]") -> int:
    """Verify every file, print its report, and return the exit code.

    For people, tables are printed in the end, or for the files done when it is interrupted.
    """
    console, for_people = Console(args), is_for_people(args)
    reports: list[tuple[str, Report]] = []

    def check(place: Place) -> tuple[ExitCode, dict[str, Any]]:
        name, report = str(place), verify(place)
        if for_people:
            if not (report.ok and console.is_quiet):
                reports.append((name, report))
            print_notices(console, name, report)
        elif not args.json:
            print_report(console, name, report)
        return report_code(report), report_document(report)

    try:
        return run_each(args, "verify", check, report_document(None))
    finally:
        if reports:
            _print_tables(reports)


def _print_tables(reports: "list[tuple[str, Report]]") -> None:
    """Print a line for each file, and a table of the damage of each damaged one."""
    from .table import size_text, span_text, table_text  # on use: only for terminals

    rows = [
        (
            "ok" if report.ok else "damaged",
            str(report.nchunks),
            size_text(report.nbytes) if report.nbytes else "-",
            shown_name(name),
        )
        for name, report in reports
    ]
    names = ("result", "chunks", "decoded", "file")
    results(table_text(names, rows, right=("chunks", "decoded")))
    for name, report in reports:
        if report.damage:
            result("")
            result(printable(f"{shown_name(name)}:"))
            faults = [
                (span_text(each.offset, each.end), _lost_text(each), each.what)
                for each in report.damage
            ]
            results(table_text(("bytes of the file", "lost", "damage"), faults))


def _lost_text(damage: "Damage") -> str:
    """Return what is lost, in the largest unit that is known."""
    from .table import span_text

    if damage.region is not None:
        return "[" + ", ".join(span_text(*side) for side in damage.region) + "]"
    if damage.rows is not None:
        return f"rows {span_text(*damage.rows)}"
    if damage.frames is not None:
        return f"frames {span_text(*damage.frames)}"
    if damage.first is not None:
        return f"bytes {span_text(damage.first, damage.last)}"
    return "-"


def report_code(report: "Report") -> ExitCode:
    """Return the exit code for a report."""
    return ExitCode.OK if report.ok else ExitCode.DAMAGED


def print_report(console: Console, name: str, report: "Report") -> None:
    """Print a line per damage, or "ok"."""
    for line in map(str, report.damage):
        result(printable(f"{shown_name(name)}: {line}"))
    if report.ok and not console.is_quiet:
        result(printable(f"{shown_name(name)}: ok"))
    print_notices(console, name, report)


def print_notices(console: Console, name: str, report: "Report") -> None:
    """Print the notices of a report to standard error."""
    for line in report.notices:
        console.note(f"{shown_name(name)}: {line}")


def report_extract(
    args: argparse.Namespace,
    command: str,
    damage: "Sequence[Damage]",
    counts: dict[str, Any],
    text: str,
) -> ExitCode:
    """Print what was written into a folder, and an error for each damage."""
    name = shown_name(args.file_)
    for each in damage:
        error(f"{name}: {each}")
    code = ExitCode.DAMAGED if damage else ExitCode.OK
    head = {"path": name, "target": args.folder, "status": STATUS_NAMES[code]}
    document = {**head, **counts, "damage": damage_documents(damage)}
    print_done(args, command, document, args.folder, text)
    return code


def run_each(args: argparse.Namespace, command: str, check: Check, failed: dict[str, Any]) -> int:
    """Check every file, even after one has failed, and return the exit code.

    `check` returns the exit code of a file, and the fields of its JSON entry other than path,
    status and error; `failed` has these fields for a file that cannot be checked. Files of other
    types that a walk of a folder found are only counted, unless they have a suffix of the type:
    then they are damaged.
    """
    walked = getattr(args, "walked", ())
    rows = [each for each in FILETYPES if not args.kinds or each.name in args.kinds]
    own = tuple(suffix for row in rows for suffix in row.suffixes)
    codes: list[ExitCode] = []
    documents: list[dict[str, Any]] = []
    nskipped = 0
    for place in each_input(args.files):
        message: str | None = None
        try:
            code, found = check(place)
        except BrokenPipeError:  # an OSError too, but of our output: it ends the command
            raise
        except EXPECTED as err:
            code, found, message = exit_code(err), failed, describe(err)
            if code == ExitCode.FOREIGN and place.path in walked and not str(place).endswith(own):
                nskipped += 1
            else:
                error(message)
                codes.append(code)
        else:
            codes.append(code)
        documents.append(
            {"path": place.shown, "status": STATUS_NAMES[code], **found, "error": message}
        )
    if args.json:
        print_json(command, {"files": documents})
    if hasattr(args, "walked"):
        Console(args).note(f"{len(codes)} checked, {nskipped} of other types")
    return most_severe(codes)
