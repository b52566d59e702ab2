"""``blpk vrs print``: print records and the values of their metadata."""

import argparse
from collections.abc import Iterator
from typing import Any

from ...plugin import (
    Console,
    ExitCode,
    add_json_option,
    encode_json,
    error,
    print_json,
    printable,
    results,
    shown_name,
)
from .recordings import add_file, add_filter_options, add_selection, choose, open_recording

_BARE = ("kind", "nbytes", "values", "error")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print records: the values of metadata, and descriptions of images, audio and custom "
        "blocks."
    )
    add_file(parser)
    add_filter_options(parser)
    add_selection(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Print records, and an error for each damaged one."""
    from ..export.documents import iter_documents

    code = ExitCode.OK

    def documents() -> Iterator[dict[str, Any]]:
        nonlocal code
        for document in iter_documents(records):
            faults = [document, *document.get("blocks", ())]
            for text in (fault["error"] for fault in faults if fault.get("error")):
                code = ExitCode.DAMAGED
                error(f"{shown_name(args.file_)}: {text}")
            yield document

    with open_recording(args.file_, args.nthreads, Console(args)) as recording:
        records = choose(recording, args)
        if args.json:
            print_json("vrs print", {"path": shown_name(args.file_), "records": documents()})
            return code  # as the last record left it
        for document in documents():
            results(map(printable, _text(document)))
    return code


def _text(document: dict[str, Any]) -> Iterator[str]:
    if "blocks" not in document:  # damaged: an error was printed instead
        return
    yield (
        f"record {document['record']}: {document['stream']} {document['type']} version "
        f"{document['version']}, {document['timestamp']} s, {document['nbytes']} bytes"
    )
    for number, block in enumerate(document["blocks"]):
        about = " ".join(f"{key}={value}" for key, value in block.items() if key not in _BARE)
        size = "size unknown" if block["nbytes"] is None else f"{block['nbytes']} bytes"
        yield f"  block {number}: {block['kind']}, {size}{about and ', '}{about}"
        for key, value in block.get("values", {}).items():
            yield f"    {key}: {encode_json(value)}"
    if document["note"]:
        yield f"  note: {document['note']}"
