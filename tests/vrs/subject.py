"""Names for snippets that run with the wheel `vrs` (module pyvrs) and with ours.

These are the module as ``vrs``, numpy as ``np``, and `plain`, `attempt` and `dump` for the module.
Results are plain values, as they travel between two versions of numpy and of Python.
"""

import functools
import hashlib
import importlib
import importlib.metadata
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

IMAGE_SPEC = (
    *("width", "height", "stride", "pixel_format", "image_format", "bytes_per_pixel"),
    *("buffer_size", "codec_name", "codec_quality", "key_frame_timestamp", "key_frame_index"),
)
AUDIO_SPEC = (
    *("sample_count", "sample_format", "sample_frame_stride", "channel_count", "sample_rate"),
    "buffer_size",
)
CUSTOM_SPEC = ("buffer_size",)
MAX_BYTES = 4096


def _digest(data: bytes) -> Any:
    return data if len(data) <= MAX_BYTES else hashlib.sha256(data).hexdigest()


def plain(value: Any) -> Any:
    """Return a value that any Python can unpickle, and that only equals the same value.

    Arrays become ("array", dtype, shape, bytes, or their SHA-256 if they are many), sets sorted
    lists, floats that are not finite ("float", text), members of enumerations their names. 1, 1.0
    and True differ by `repr`.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        return ("array", value.dtype.str, value.shape, _digest(value.tobytes()))
    if isinstance(value, float) and not math.isfinite(value):
        return ("float", repr(value))
    if value is None or type(value) in (bool, int, float, str, bytes):
        return value
    if isinstance(value, Mapping):
        return {plain(key): plain(value[key]) for key in sorted(value)}
    if isinstance(value, (set, frozenset)):
        return sorted(plain(item) for item in value)
    if isinstance(value, (list, tuple)):
        return type(value)(plain(item) for item in value)
    if isinstance(getattr(value, "name", None), str):
        return str(value.name)
    raise TypeError(f"no plain value of a {type(value).__name__}: {value!r}")


def dump_record(record: Any) -> dict[str, Any]:
    """Return all properties of a VRSRecord; None for audio that the wheel cannot return."""

    def blocks(of: Iterable[Any]) -> list[Any]:
        return [plain(block) for block in of]

    def samples(index: int) -> Any:
        spec = record.audio_specs[index]
        if spec.channel_count > 1 and spec.sample_format.name.endswith("_BE"):
            return None  # byte swapping in the wheel crashes or gives wrong samples
        if spec.buffer_size != spec.sample_count * spec.sample_frame_stride:
            return None  # not PCM: the wheel returns bytes that are not in the file
        return plain(record.audio_blocks[index])

    def specs(of: Iterable[Any], fields: tuple[str, ...]) -> list[dict[str, Any]]:
        return [{name: plain(getattr(spec, name)) for name in fields} for spec in of]

    return {
        "stream_id": record.stream_id,
        "record_type": record.record_type,
        "timestamp": plain(record.timestamp),
        "record_index": record.record_index,
        "format_version": record.format_version,
        "n_blocks_in_total": record.n_blocks_in_total,
        "metadata_blocks": blocks(record.metadata_blocks),
        "image_blocks": blocks(record.image_blocks),
        "image_specs": specs(record.image_specs, IMAGE_SPEC),
        "audio_blocks": [samples(index) for index in range(record.n_audio_blocks)],
        "audio_specs": specs(record.audio_specs, AUDIO_SPEC),
        "custom_blocks": blocks(record.custom_blocks),
        "custom_block_specs": specs(record.custom_block_specs, CUSTOM_SPEC),
    }


def dump(
    vrs: Any,
    path: Any,
    *,
    conversion: str = "OFF",
    stream_ids: Any = None,
    record_types: Any = None,
    checksum: bool = True,
    **options: Any,
) -> dict[str, Any]:
    """Return all properties of a file as plain values.

    Parameters
    ----------
    vrs : module
        pyvrs, or our module.
    path : str or list of str
        Paths for SyncVRSReader, which also gets the `options`.
    conversion : str
        ImageConversion for images; "RAW_BUFFER" returns bytes as stored.
    stream_ids, record_types : optional
        Limit the records, as in `filtered_by_fields`.
    checksum : bool
        Add "checksum", the logical checksum of the file (for a single path).

    Returns
    -------
    dict
        "file_tags", "streams" (of each stream its "tags", its "info": counts, indices and times
        per type, device_name, serial_number, flavor; "size" in the file, "might_contain_images",
        "might_contain_audio"), "min_timestamp", "max_timestamp", "record_types", "n_records",
        "records" in time order (see `dump_record`) and "checksum".
    """
    reader = vrs.SyncVRSReader(path, **options)
    reader.set_image_conversion(getattr(vrs.ImageConversion, conversion))
    records = reader
    if stream_ids is not None or record_types is not None:
        records = reader.filtered_by_fields(stream_ids=stream_ids, record_types=record_types)
    try:
        found = {
            "file_tags": plain(reader.file_tags),
            "streams": {
                stream_id: {
                    "tags": plain(reader.stream_tags[stream_id]),
                    "info": plain(reader.get_stream_info(stream_id)),
                    "size": reader.get_stream_size(stream_id),
                    "might_contain_images": reader.might_contain_images(stream_id),
                    "might_contain_audio": reader.might_contain_audio(stream_id),
                }
                for stream_id in sorted(reader.stream_ids)
            },
            "min_timestamp": plain(reader.min_timestamp),
            "max_timestamp": plain(reader.max_timestamp),
            "record_types": plain(reader.record_types),
            "n_records": reader.n_records,
            "records": [dump_record(records[index]) for index in range(len(records))],
        }
    finally:
        reader.close()
    if checksum and isinstance(path, str):
        found["checksum"] = vrs.records_checksum(path, False)
    return found


def attempt(call: Callable[[], Any]) -> Any:
    """Return the plain value of a call, or the class name of its error."""
    try:
        return plain(call())
    except Exception as err:
        return type(err).__name__


def names(vrs: Any) -> dict[str, Any]:
    """Return the names for snippets with a module."""
    bound: Callable[..., Any] = functools.partial(dump, vrs)
    return {
        "vrs": vrs,
        "np": np,
        "plain": plain,
        "attempt": attempt,
        "dump": bound,
        "dump_record": dump_record,
    }


def load() -> tuple[str, dict[str, Any]]:
    """Return the version of the wheel, and the names; for `tests.snippets`."""
    return importlib.metadata.version("vrs"), names(importlib.import_module("pyvrs"))
