"""Page of any file: what it is, its size, and its verification."""

import os
from typing import Any

from ..plugin import Archive, Array, Report, is_url, verify_source
from .protocol import EXPECTED, Answer, Query, Work, document
from .session import Session, ViewedFile
from .slices import message

_MAX_FILES = 500  # a longer list would be cut: `protocol.MAX_ENTRIES`


def files(session: Session, query: Query, work: Work) -> Answer:
    """Return the files of the page: name, type and size, or what is wrong with it."""
    rows = []
    start = query.integer("start", 0, 0, max(0, len(session.files) - 1))
    for file in session.files[start : start + _MAX_FILES]:
        work.step()
        rows.append(_row(file))
    return document({"files": rows, "start": start, "nfiles": len(session.files)})


def _row(file: ViewedFile) -> dict[str, Any]:
    row: dict[str, Any] = {"ordinal": file.ordinal, "name": file.name}
    try:
        row["kind"] = file.filetype.name
        row["kind_name"] = file.filetype.kind.name
        row["size"] = _size(file)
    except EXPECTED as err:
        row |= {"kind": "unknown", "kind_name": "not readable", "error": message(err)}
    return row


def _size(file: ViewedFile) -> int | None:
    path = file.place.path
    if is_url(path):
        return None
    if not os.path.isdir(path):
        return os.path.getsize(path)
    with os.scandir(path) as entries:
        return sum(entry.stat().st_size for entry in entries if entry.is_file())


def info(file: ViewedFile, query: Query, work: Work) -> Answer:
    """Return what is in a file: header, trailer, checksum, metadata."""
    row = _row(file)
    if "error" in row:
        return document(row)
    try:
        opened = file.open()
        row |= _header(opened)
    except EXPECTED as err:
        row["error"] = message(err)
    row["report"] = None if file.report is None else _report(file.report)
    return document(row)


def _header(opened: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if isinstance(opened, Array):
        container = opened.container
        header = container.header
        fields = {name: getattr(value, "name", value) for name, value in header._asdict().items()}
        found = {"header": fields, "trailer": container.front.trailer_state}
        found["content"] = f"{opened.dtype} {opened.shape}"
        found |= {"nbytes": opened.nbytes, "nchunks": opened.nchunks}
        found["metadata"] = container.metadata
    elif isinstance(opened, Archive):
        found = {"content": f"{len(opened)} arrays", "metadata": opened.attrs}
    else:
        found = {"content": f"{len(opened)} clips", "metadata": getattr(opened, "attrs", None)}
    return found


def verify(file: ViewedFile, work: Work) -> dict[str, Any]:
    """Verify a file, emit progress, and return the report; POST only."""
    shown = -1

    def progress(done: int, total: int) -> None:
        nonlocal shown
        work.step()
        percent = done * 100 // total if total > 0 else 0
        if percent > shown:
            shown = percent
            work.emit({"done": done, "total": total})

    filetype, source = file.identify()
    # The images of a folder are decoded too, as its files have no checksums.
    report = verify_source(
        filetype, source, decode=filetype.is_folder, nthreads=file.nthreads, progress=progress
    )
    file.report = report
    return _report(report)


def _report(report: Report) -> dict[str, Any]:
    return {
        "ok": report.ok,
        "text": str(report),
        "trailer": report.trailer,
        "nchunks": report.nchunks,
        "nbytes": report.nbytes,
        "notices": report.notices,
        "damage": [
            {
                "what": str(each),
                "index": each.index,
                "offset": each.offset,
                "end": each.end,
                "clip": each.clip,
                "frames": each.frames,
                "member": each.member,
            }
            for each in report.damage
        ],
    }
