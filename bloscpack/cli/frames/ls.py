"""``blpk frames ls``: list clips, one line per clip."""

import argparse
from typing import Any

from ...filetypes.open import frames_of
from ...filetypes.table import FileType
from ...frames.protocol import FrameSource
from ...frames.store.format import CHECKSUM
from ...frames.store.framestore import FrameStore
from ...storage.protocol import ByteSource
from ...storage.url import shown_name
from ..console.describe import dtype_text
from ..console.options import add_json_option, add_option
from ..console.output import encode_json, error, print_json, printable, result
from ..console.status import EXPECTED, STATUS_NAMES, ExitCode, describe, exit_code, most_severe
from .clips import clip_nbytes, kept_as, open_clips
from .info import FORMAT_VERSION, sizes_of

_EMPTY = dict.fromkeys(("shape", "dtype", "kept_as", "nbytes", "meta"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print for each clip: its shape (frames first), dtype, how its frames are stored "
        "(arrays, or JPEG or PNG images), its decoded bytes and its id."
    )
    parser.add_argument("file_", metavar="STORE", help="file or folder of clips")
    parser.add_argument("ids", metavar="ID", nargs="*", help="clips to list (default: all)")
    add_option(parser, "--meta", "print metadata after the id")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """List clips."""
    codes: list[ExitCode] = []
    documents: list[dict[str, Any]] = []
    with open_clips(args) as source:
        for id_ in args.ids or source:
            code, message = ExitCode.OK, None
            about: dict[str, Any] = dict(_EMPTY)
            try:
                about.update(_describe(source, id_, with_meta=args.meta or args.json))
            except EXPECTED as err:
                code, message = exit_code(err), describe(err)
                error(message)
            if args.json:
                status = STATUS_NAMES[code]
                documents.append({"id": id_, "status": status, **about, "error": message})
            elif code == ExitCode.OK:
                result(_line(id_, about, with_meta=args.meta))
            codes.append(code)
    if args.json:
        print_json("frames ls", {"path": shown_name(args.file_), "clips": documents})
    return most_severe(codes)


def entry(source: ByteSource) -> dict[str, Any]:
    """Return the JSON fields of a frame store for ``blpk ls``."""
    with FrameStore(source) as store:
        summary = store.summary()
        form = summary.formats[0][0] if len(summary.formats) == 1 else None
        return {
            "kind": "frames",
            # None if frames differ in shape
            "shape": None if form is None or form.varies else [summary.nframes, *form.shape],
            "dtype": None if form is None else dtype_text(form.dtype),
            **sizes_of(store),
            "checksum": CHECKSUM,
            "format_version": FORMAT_VERSION,
        }


def clip_entry(filetype: FileType, source: Any, inner: str) -> dict[str, Any]:
    """Return the JSON fields of a clip for ``blpk ls``."""
    with frames_of(filetype, source) as clips:
        clip = clips[inner]
        return {
            "kind": "clip",
            "shape": list(clip.shape),
            "dtype": dtype_text(clip.dtype),
            "order": "C",
            "nbytes": clip_nbytes(clip),
        }


def _describe(source: FrameSource, id_: str, *, with_meta: bool) -> dict[str, Any]:
    clip = source[id_]
    return {
        "shape": list(clip.shape),
        "dtype": dtype_text(clip.dtype),
        "kept_as": kept_as(clip),
        "nbytes": clip_nbytes(clip),
        "meta": clip.meta if with_meta else None,
    }


def _line(id_: str, about: dict[str, Any], *, with_meta: bool) -> str:
    shape = "x".join(map(str, about["shape"]))
    name = f"{id_}  {encode_json(about['meta'])}" if with_meta else id_
    return printable(
        f"{shape:<16}  {about['dtype']:<6}  {about['kept_as']:<6}  {about['nbytes']:>11}  {name}"
    )
