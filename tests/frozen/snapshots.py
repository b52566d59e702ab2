"""The files of snapshots: what is in each, and how it is written and read."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import commands, interface, loading, reads

FOLDER = Path(__file__).parent
WIDTH = 100
# The words of argparse and the layout of help differ between releases of Python.
PYTHON = "Recorded with Python {}.{}".format(*sys.version_info)


def _interface() -> Any:
    return {name: interface.describe_module(name) for name in interface.MODULES}


def _reads() -> Any:
    return {"local": reads.local(), "http": reads.remote()}


def _transcripts() -> str:
    return f"{PYTHON}\n\n{commands.transcripts()}"


SNAPSHOTS: dict[str, Callable[[], Any]] = {
    "interface.json": _interface,
    "options.json": commands.options,
    "commands.json": commands.commands,
    "schemas.json": commands.schemas,
    "transcripts.txt": _transcripts,
    "reads.json": _reads,
    "loading.json": loading.counts,
}


def record(name: str) -> None:
    """Write a snapshot of the present code."""
    found = SNAPSHOTS[name]()
    text = found if isinstance(found, str) else f"{dumped(found)}\n"
    (FOLDER / name).write_text(text, "utf-8")


def recorded(name: str) -> Any:
    """Read a snapshot."""
    text = (FOLDER / name).read_text("utf-8")
    return json.loads(text) if name.endswith(".json") else text


def dumped(value: Any, indent: int = 0) -> str:
    """Return JSON with each small object or list on a line of its own, to be read in diffs."""
    line = json.dumps(value, ensure_ascii=False)
    is_flat = not isinstance(value, dict | list) or len(line) + indent <= WIDTH
    if is_flat and indent > 0:
        return line
    inner = indent + 1
    if isinstance(value, dict):
        parts = [
            f"{json.dumps(key, ensure_ascii=False)}: {dumped(each, inner)}"
            for key, each in value.items()
        ]
    else:
        parts = [dumped(each, inner) for each in value]
    begin, end = ("{", "}") if isinstance(value, dict) else ("[", "]")
    lines = ",\n".join(" " * inner + part for part in parts)
    return f"{begin}\n{lines}\n{' ' * indent}{end}"
