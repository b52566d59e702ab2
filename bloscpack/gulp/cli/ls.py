"""Entry of a gulp directory in ``blpk ls``."""

from typing import Any

from ...plugin import FormatError, ListedFolder


def entry(folder: ListedFolder) -> dict[str, Any]:
    """Return the JSON fields of a directory for ``blpk ls``; no data file is read."""
    from ..verify import verify

    report = verify(folder, records=False)
    if not report.ok:
        raise FormatError(str(report.damage[0])).at(path=folder.name)
    return {
        "kind": "gulp",
        "dtype": "|u1",
        "count": report.nframes,
        "nchunks": report.nchunks,
        "cbytes": report.nbytes + report.meta_nbytes,
    }
