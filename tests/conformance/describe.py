"""Description of a file: everything that a reader must find in it, by the reference readers."""

import json
from pathlib import Path
from typing import Any

from ..reference import archive_reader, array_reader, frame_reader, log_reader
from ..reference.refused import RefusedError


def describe(data: bytes) -> dict[str, Any]:
    """Return the description of a file, or the kind of error that readers must raise."""
    features = data[40] if data[4:5] == b"\x04" and len(data) >= 64 else 0
    reader: Any = frame_reader if features & 1 else array_reader
    if features & archive_reader.ARCHIVE:
        reader = archive_reader
    if features & log_reader.LOG:
        reader = log_reader
    try:
        found: dict[str, Any] = reader.describe(data)
    except RefusedError as err:
        return {"kind": "damaged", "error": err.kind}
    return found


def write_twin(path: Path, data: bytes) -> None:
    twin = {"file": path.name, "nbytes": len(data), "sha256": array_reader.sha256(data)}
    lines = [
        f"{json.dumps(key)}: {_value(value)}" for key, value in (twin | describe(data)).items()
    ]
    with path.with_suffix(".json").open("x") as stream:
        stream.write("{\n" + ",\n".join(lines) + "\n}\n")


def _value(value: Any) -> str:
    """Return JSON with one line per object of a list."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(" " + json.dumps(each) for each in value) + "\n]"
    return json.dumps(value)
