"""``blpk frames info``: describe a source of clips."""

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

from ...filetypes.arrayclips import Clips
from ...filetypes.open import frames_of
from ...filetypes.table import FileType
from ...frames.protocol import FrameSource
from ...frames.store.framestore import FrameStore
from ...storage.protocol import ByteSource
from ...storage.url import shown_name
from ..console.describe import dtype_text, shape_text
from ..console.options import add_json_option
from ..console.output import (
    double_pretty_size,
    encode_json,
    give_document,
    is_for_people,
    prefixed_result,
    print_json,
    printable,
    result,
    results,
)
from ..console.status import ExitCode
from .clips import clip_nbytes, kept_as, open_clip_input
from .storeinfo import store_document, store_summary, store_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print the numbers of clips and frames, their shapes and dtypes, and their size. No frame "
        "is decoded."
    )
    parser.add_argument("file_", metavar="STORE", help="frame store or gulp directory")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Describe a source."""
    filetype, opened = open_clip_input(args.file_)
    with frames_of(filetype, opened, nthreads=args.nthreads) as source:
        kind = filetype.kind.name.partition(" ")[2].replace("Gulp", "gulp")  # without its article
        document = _describe(args.file_, source, kind)
    if args.json:
        print_json("frames info", document)
    else:
        _print(document)
    return ExitCode.OK


def show_clip(args: argparse.Namespace, filetype: FileType, source: Any, inner: str) -> int:
    """Describe one clip for ``blpk info``."""
    with frames_of(filetype, source, nthreads=args.nthreads) as clips:
        clip = clips[inner]
        document = _describe(args.file_, Clips({inner: clip}, clips.name), "clip")
        document |= {"cbytes": None, "attrs": clip.meta}
    if args.json:
        give_document(args, "info", document)
    elif is_for_people(args):
        _summarize_clip(document)
    else:
        _print(document)
    return ExitCode.OK


def _summarize_clip(document: dict[str, Any]) -> None:
    from ..console.table import attrs_text, exact_size_text, fields_text  # on use

    [form] = document["formats"]
    fields = (
        ("kind", "clip"),
        ("shape", shape_text([document["nframes"], *form["shape"]])),
        ("dtype", form["dtype"]),
        ("decoded", exact_size_text(document["nbytes"])),
        ("kept as", form["kept_as"]),
        ("meta", attrs_text(document["attrs"])),
    )
    results(fields_text(fields))


def _print(document: dict[str, Any]) -> None:
    result(f"kind: {document['kind']}")
    result(f"clips: {document['nclips']}")
    result(f"frames: {document['nframes']}")
    for form in document["formats"]:
        result(
            f"  {form['nframes']} of {shape_text(form['shape'])} {form['dtype']}, kept as "
            f"{form['kept_as']}, in {form['nclips']} clips"
        )
    result(f"decoded: {double_pretty_size(document['nbytes'])}")
    if document["cbytes"] is not None:
        result(f"stored: {double_pretty_size(document['cbytes'])}")
    if document["attrs"]:
        result(printable(f"attributes: {encode_json(document['attrs'])}"))


def show(args: argparse.Namespace, source: ByteSource) -> int:
    """Describe a frame store for ``blpk info``."""
    with FrameStore(source) as store:
        document = store_document(args.file_, store)
    if args.json:
        give_document(args, "info", document)
    elif is_for_people(args):
        results(store_summary(document))
    else:
        prefixed_result("\n".join(store_text(document)))
    return ExitCode.OK


def _describe(name: str, source: FrameSource, kind: str) -> dict[str, Any]:
    clips: Counter[tuple[Any, ...]] = Counter()
    frames: Counter[tuple[Any, ...]] = Counter()
    nbytes = 0
    for id_ in source:
        clip = source[id_]
        form = (clip.shape[1:], dtype_text(clip.dtype), kept_as(clip))
        clips[form] += 1
        frames[form] += len(clip)
        nbytes += clip_nbytes(clip)
    return {
        "path": shown_name(name),
        "kind": kind,
        "nclips": len(source),
        "nframes": frames.total(),
        "nbytes": nbytes,
        "cbytes": _stored_nbytes(name),
        "formats": [
            {
                "shape": list(form[0]),
                "dtype": form[1],
                "kept_as": form[2],
                "nclips": count,
                "nframes": frames[form],
            }
            for form, count in clips.most_common()
        ],
        "attrs": source.attrs if isinstance(source, FrameStore) else None,
    }


def _stored_nbytes(name: str) -> int | None:
    """Return the size of a file, or of the files in a folder, or None for a pipe."""
    path = Path(name)
    if path.is_dir():  # gulp directories have no folders
        return sum(each.stat().st_size for each in path.iterdir() if each.is_file())
    return path.stat().st_size if path.is_file() else None
