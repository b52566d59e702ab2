"""Description of an archive, for ``blpk info``."""

import argparse
from typing import Any

from ...archive.reader import Archive
from ...storage.protocol import ByteSource
from ...storage.url import shown_name
from ..console.describe import array_fields, shape_text
from ..console.output import (
    double_pretty_size,
    encode_json,
    format_metadata,
    is_for_people,
    prefixed_result,
    printable,
    results,
)
from ..console.status import ExitCode


def show(args: argparse.Namespace, source: ByteSource) -> int:
    """Print the names, shapes and sizes of the arrays."""
    with Archive(source) as archive:
        document = _document(args.file_, archive)
    if args.json:
        args.documents.append(document)
        return ExitCode.OK
    if is_for_people(args):
        _summarize(document)
        return ExitCode.OK
    lines = [
        "Archive:",
        f"    arrays: {len(document['arrays'])}",
        f"    nbytes: {double_pretty_size(document['nbytes'])}",
        f"    cbytes: {double_pretty_size(document['cbytes'])}",
        f"    ratio: {document['ratio']:.2f}",
        "Arrays:",
    ]
    for each in document["arrays"]:
        shape = shape_text(each["shape"])
        lines.append(printable(f"    {each['name']}: {shape} {each['dtype']}"))
    if attrs := document["attrs"]:
        lines += ["Attributes:", format_metadata(attrs, len(encode_json(attrs)))]
    prefixed_result("\n".join(lines))
    return ExitCode.OK


def _summarize(document: dict[str, Any]) -> None:
    from ..console.table import attrs_text, exact_size_text, size_text, summary_text

    fields = [
        ("kind", "archive"),
        ("arrays", len(document["arrays"])),
        ("decoded", exact_size_text(document["nbytes"])),
        ("stored", exact_size_text(document["cbytes"])),
        ("ratio", f"{document['ratio']:.2f}"),
        ("attrs", attrs_text(document["attrs"])),
        ("format", "version 4, read by bloscpack 1.0 and later, not 0.16"),
    ]
    rows = [
        (
            shape_text(each["shape"]),
            each["dtype"],
            size_text(each["nbytes"]),
            size_text(each["cbytes"]),
            each["name"],
        )
        for each in document["arrays"]
    ]
    names = ("shape", "dtype", "decoded", "stored", "array")
    results(summary_text(fields, names, rows, right=("decoded", "stored")))


def _document(name: str, archive: Archive) -> dict[str, Any]:
    arrays: list[dict[str, Any]] = []
    for key, array in archive.items():
        with array:
            arrays.append(
                {
                    "name": key,
                    **array_fields(array.shape, array.dtype, array.is_fortran),
                    "nbytes": array.nbytes,
                    "cbytes": array.cbytes,
                }
            )
    nbytes = sum(each["nbytes"] for each in arrays)
    return {
        "path": shown_name(name),
        "kind": "archive",
        "nbytes": nbytes,
        "cbytes": archive.cbytes,
        "ratio": nbytes / archive.cbytes,
        "format_version": 4,
        "attrs": archive.attrs,
        "arrays": arrays,
        "error": None,
    }
