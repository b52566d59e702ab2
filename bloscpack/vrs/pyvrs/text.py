"""Text that ``str(reader)`` consists of."""

from collections.abc import Iterable, Iterator, Mapping

from .pyvrserrors import type_name_of
from .queries import Owner


def set_text(names: Iterable[str]) -> str:
    """Format sorted names in braces."""
    return "{" + ", ".join(sorted(names)) + "}"


def tags_text(tags: Mapping[str, str]) -> str:
    """Format tags as a table."""
    if not tags:
        return "File contains no file tags."
    width = max(map(len, tags))
    lines = [f"{tag.rjust(width)}| {tags[tag]}" for tag in sorted(tags)]
    width = max(map(len, lines))
    return "\n".join([" FILE TAGS ".center(width, "-"), *lines, "-" * width])


def range_text(which: str, first: float, last: float) -> str:
    """Format a time range."""
    return f"{last - first:.2f}s of {which} records: {first:.2f}s - {last:.2f}s"


def head_lines(owner: Owner, counted: str) -> list[str]:
    """Return the first lines, which all readers share."""
    state = "enabled" if owner.reads_configuration else "disabled"
    return [
        owner._path,
        tags_text(owner.file_tags),
        counted,
        f"Automatic configuration record reading is {state}",
    ]


def stream_lines(owner: Owner, stream_ids: Iterable[str]) -> Iterator[str]:
    """Yield the lines that describe streams."""
    for stream_id in stream_ids:
        counts = owner._catalog.counts_of(owner._ordinal(stream_id))
        instance = stream_id.partition("-")[2]
        yield f"  Stream ID: {stream_id} ({type_name_of(stream_id)} no. {instance})"
        yield f"      No. of records {counts}"
