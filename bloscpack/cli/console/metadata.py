"""Metadata of a file: read from a JSON file, and printed."""

import json
from pathlib import Path
from typing import Any

from ...format.metadata import MetadataHeader
from .output import Console, format_metadata


def read_metadata_file(name: str) -> Any:
    """Return the JSON value in a file.

    Raises
    ------
    ValueError
        The file is not valid JSON.
    OSError
        The file cannot be read.
    """
    try:
        return json.loads(Path(name).read_bytes().strip())
    except (ValueError, RecursionError) as err:
        raise ValueError(f"metadata file '{name}' is not valid JSON: {err}") from err


def report_metadata(console: Console, header: MetadataHeader | None) -> None:
    """Print the size of the metadata, in the words of bloscpack 0.16."""
    if header is not None:
        how = "uncompressed" if header.meta_codec == "None" else "compressed"
        console.verbose(f"read {how} metadata of size: '{header.meta_comp_size}'")


def metadata_text(metadata: Any, header: MetadataHeader) -> str:
    """Return the metadata of a file with a heading, as bloscpack 0.16 prints them."""
    return "Metadata:\n" + format_metadata(metadata, header.meta_size)
