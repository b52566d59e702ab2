"""Description of a frame store or of one clip, for ``blpk info``."""

import argparse
from collections.abc import Iterator
from typing import Any

from ...filetypes.open import frames_of
from ...filetypes.table import FileType
from ...frames.store.framestore import FrameStore
from ...storage.protocol import ByteSource
from ...storage.url import shown_name
from ..console.describe import dtype_text, shape_text
from ..console.output import (
    double_pretty_size,
    encode_json,
    is_for_people,
    prefixed_result,
    printable,
    results,
)
from ..console.status import ExitCode
from .clips import clip_nbytes, kept_as
from .storeinfo import store_document, store_summary, store_text


def show_clip(args: argparse.Namespace, filetype: FileType, source: Any, inner: str) -> int:
    """Describe one clip for ``blpk info``; no frame is decoded."""
    with frames_of(filetype, source, nthreads=args.nthreads) as clips:
        clip = clips[inner]
        document = {
            "path": shown_name(args.file_),
            "kind": "clip",
            "shape": list(clip.shape),
            "dtype": dtype_text(clip.dtype),
            "nbytes": clip_nbytes(clip),
            "kept_as": kept_as(clip),
            "attrs": clip.meta,
        }
    if args.json:
        args.documents.append(document)
    elif is_for_people(args):
        results(_clip_summary(document))
    else:
        results(_clip_text(document))
    return ExitCode.OK


def _clip_text(document: dict[str, Any]) -> Iterator[str]:
    yield "kind: clip"
    yield f"shape: {shape_text(document['shape'])}"
    yield f"dtype: {document['dtype']}"
    yield f"decoded: {double_pretty_size(document['nbytes'])}"
    yield f"kept as: {document['kept_as']}"
    if document["attrs"]:
        yield printable(f"attributes: {encode_json(document['attrs'])}")


def _clip_summary(document: dict[str, Any]) -> Iterator[str]:
    from ..console.table import attrs_text, exact_size_text, fields_text  # on use

    fields = (
        ("kind", "clip"),
        ("shape", shape_text(document["shape"])),
        ("dtype", document["dtype"]),
        ("decoded", exact_size_text(document["nbytes"])),
        ("kept as", document["kept_as"]),
        ("meta", attrs_text(document["attrs"])),
    )
    return fields_text(fields)


def show(args: argparse.Namespace, source: ByteSource) -> int:
    """Describe a frame store for ``blpk info``."""
    with FrameStore(source) as store:
        document = store_document(args.file_, store)
    if args.json:
        args.documents.append(document)
    elif is_for_people(args):
        results(store_summary(document))
    else:
        prefixed_result("\n".join(store_text(document)))
    return ExitCode.OK
