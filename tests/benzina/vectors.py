"""Files written by Benzina's own tools, and the manifest that describes them.

Other real files of the same kinds have manifests of the same form.
"""

import functools
import json
from pathlib import Path
from typing import Any

from tests.conftest import ReferenceFolder

FOLDER = ReferenceFolder("benzina")


@functools.cache
def manifest() -> dict[str, Any]:
    """Return the manifest, or skip the test if it is not available."""
    found: dict[str, Any] = json.loads((FOLDER / "manifest.json").read_text("utf-8"))
    return found


def names(kind: str) -> list[str]:
    """Return the files of a kind ("dataset", "input_sample"); none without the vectors."""
    if not FOLDER:
        return []
    return [name for name, facts in manifest()["files"].items() if facts["kind"] == kind]


def facts(name: str) -> dict[str, Any]:
    """Return the manifest's description of a file."""
    found: dict[str, Any] = manifest()["files"][name]
    return found


def data(name: str) -> bytes:
    """Return the bytes of a file."""
    return (FOLDER / name).read_bytes()


def write_sparse(path: Path) -> dict[str, Any]:
    """Write the dataset that is longer than 4 GiB, nearly all of it a hole; return its recipe."""
    recipe: dict[str, Any] = manifest()["sparse"]["sparse_4g.bzna"]
    with path.open("wb") as stream:
        stream.truncate(recipe["total_size"])
        for segment in recipe["segments"]:
            stream.seek(segment["offset"])
            stream.write(data(segment["file"]))
    return recipe
