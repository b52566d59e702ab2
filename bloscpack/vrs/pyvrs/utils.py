"""Helper functions of pyvrs, under its names: selection of streams and types, text for display."""

from collections import Counter
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from typing import Any

from ...plugin import text_list
from .pyvrserrors import type_name_of
from .text import set_text, tags_text

__all__ = [
    "filter_by_record_type",
    "filter_by_stream_ids",
    "get_recordable_type_id_name",
    "string_of_set",
    "stringify_metadata_keys",
    "tags_to_justified_table_str",
]


def get_recordable_type_id_name(stream_id: str) -> str:
    """Return the type name for a stream id such as ``"1201-1"``."""
    return type_name_of(stream_id)


def filter_by_stream_ids(
    available_stream_ids: set[str], regex_stream_ids: Iterable[str]
) -> set[str]:
    """Return the ids that match one of the shell patterns, such as ``"1201-*"``."""
    patterns = text_list("regex_stream_ids", regex_stream_ids)
    return {id_ for id_ in available_stream_ids if any(fnmatch(id_, each) for each in patterns)}


def filter_by_record_type(
    available_record_types: set[str], requested_record_types: Iterable[str]
) -> set[str]:
    """Return the available record types that were requested."""
    requested = text_list("requested_record_types", requested_record_types)
    return {each for each in available_record_types if each in requested}


def string_of_set(s: Iterable[str]) -> str:
    """Format sorted names in braces."""
    return set_text(s)


def tags_to_justified_table_str(tags: Mapping[str, Any]) -> str:
    """Format tags as a table."""
    return tags_text(tags)


def stringify_metadata_keys(metadata_dict: Mapping[tuple[str, str], Any]) -> dict[str, Any]:
    """Return values by name, or by ``name<type>`` if a name has several types."""
    counts = Counter(name for name, _ in metadata_dict)
    found: dict[str, Any] = {}
    for (name, kind), value in metadata_dict.items():
        key, depth = name, 0
        while counts[name] > 1 and (not depth or key in found):
            depth += 1
            key = f"{name}{'<' * depth}{kind}{'>' * depth}"
        found[key] = value
    return found
