"""Entry of a recording in ``blpk ls``."""

from typing import Any

from ...plugin import ByteSource


def entry(source: ByteSource) -> dict[str, Any]:
    """Return the JSON fields of a recording for ``blpk ls``; no record is read."""
    from ..recording import open_quietly

    with open_quietly(source) as recording:
        return {"kind": "recording", "count": len(recording), "cbytes": recording.source.size()}
