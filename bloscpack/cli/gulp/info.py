"""Description of a gulp directory, for ``blpk info``."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...storage.folder.filelist import ListedFolder
from ...storage.url import shown_name
from ..console.output import Console, double_pretty_size, is_for_people, results
from ..console.reports import print_notices, report_code

if TYPE_CHECKING:
    from ...gulp.verify import DirectoryReport


def show(args: argparse.Namespace, folder: ListedFolder) -> int:
    """Describe a directory, and print its damage to standard error."""
    from ...gulp.verify import verify

    report = verify(folder, records=False)
    if args.json:
        args.documents.append(_document(args.file_, report))
    elif is_for_people(args):
        _summarize(report)
    else:
        results(_text(report))
    console = Console(args)
    for damage in report.damage:
        console.note(f"{shown_name(args.file_)}: {damage}")
    print_notices(console, args.file_, report)
    return report_code(report)


def _document(name: str, report: "DirectoryReport") -> dict[str, Any]:
    return {
        "path": shown_name(name),
        "kind": "gulp",
        "cbytes": report.nbytes + report.meta_nbytes,
        "nchunks": report.nchunks,
        "nclips": report.nitems,
        "nframes": report.nframes,
        "errors": list(map(str, report.damage)),
    }


def _summarize(report: "DirectoryReport") -> None:
    from ..console.table import exact_size_text, fields_text  # on use: only for terminals

    fields = (
        ("kind", "gulp directory"),
        ("items", report.nitems),
        ("frames", report.nframes),
        ("stored", exact_size_text(report.nbytes + report.meta_nbytes)),
        ("chunks", f"{report.nchunks}, with {exact_size_text(report.meta_nbytes)} of indexes"),
        ("damage", f"{len(report.damage)} faults, see below" if report.damage else None),
    )
    results(fields_text(fields))


def _text(report: "DirectoryReport") -> Iterator[str]:
    yield "kind: gulp directory"
    yield f"chunks: {report.nchunks}"
    yield f"items: {report.nitems}"
    yield f"frames: {report.nframes}"
    yield f"data: {double_pretty_size(report.nbytes)}"
    yield f"index: {double_pretty_size(report.meta_nbytes)}"
