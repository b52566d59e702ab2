"""Location of a recording: a path, the paths of its chunks, or pyvrs's file spec."""

import json
import os
from collections.abc import Mapping
from typing import Any


class FileSpec:
    """Files of one recording.

    Parameters
    ----------
    spec : str, PathLike or mapping
        A path, or ``{"chunks": [path, ...]}`` as a mapping or as JSON.

    Raises
    ------
    ValueError
        The spec does not list chunks, or names a storage other than local files.

    Notes
    -----
    Only this class parses text that starts with ``{`` as JSON; readers take every ``str`` as a
    path.
    """

    def __init__(self, spec: "str | os.PathLike[str] | Mapping[str, Any]") -> None:
        self._place = _place_of(spec)

    @property
    def place(self) -> "str | list[str]":
        """Path, or list of the paths of all chunks."""
        return self._place

    def get_chunks(self) -> list[str]:
        """Return the paths of all chunks."""
        return [self._place] if isinstance(self._place, str) else list(self._place)

    def get_easy_path(self) -> str:
        """Return the path, or the spec of the chunks as JSON."""
        return easy_path(self._place)

    def __repr__(self) -> str:
        return f"FileSpec({self.get_easy_path()!r})"


def _place_of(spec: Any) -> str | list[str]:
    if isinstance(spec, str) and spec.startswith("{"):
        try:
            spec = json.loads(spec)
        except (ValueError, RecursionError) as err:
            raise ValueError(f"file spec {spec!r:.80} is not JSON: {err}") from err
    if not isinstance(spec, Mapping):
        return os.fsdecode(spec)
    if spec.get("storage", "diskfile") != "diskfile":
        raise ValueError(f"storage {spec['storage']!r:.80}: only local files are supported")
    chunks = spec.get("chunks") or spec.get("filename") or spec.get("uri")
    if isinstance(chunks, str):
        return chunks
    if not isinstance(chunks, list | tuple) or not chunks:
        raise ValueError(f"file spec {dict(spec)!r:.80}: expected 'chunks', a list of paths")
    return [os.fsdecode(path) for path in chunks]


def place_of(path: Any) -> str | list[str]:
    """Return the path of a recording, or the list of the paths of its chunks."""
    if isinstance(path, FileSpec):
        return path.place
    if isinstance(path, Mapping):
        return FileSpec(path).place
    if isinstance(path, list | tuple):
        if not path:
            raise ValueError("expected the paths of at least one chunk")
        return [os.fsdecode(chunk) for chunk in path]
    return os.fsdecode(path)


def easy_path(place: "str | list[str]") -> str:
    """Return a place as text: the path, or the spec of the chunks as JSON."""
    if isinstance(place, str):
        return place
    return json.dumps({"chunks": place, "storage": "diskfile"}, separators=(",", ":"))
