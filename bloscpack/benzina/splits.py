"""Splits of a dataset: named ranges of its samples, declared by the caller or stored in the file.

Benzina stores no splits; its ImageNet class derives them from positions. Our writer stores them in
a box of our own, ``moov/udta/bzsp``, which other readers skip: version and flags (0), then the
number of splits (4 bytes). Each split has the first sample and the end (8 bytes each), the size of
the name (2 bytes) and the name in UTF-8. All numbers are big-endian. Pure: bytes in, values out.
"""

import struct
from collections.abc import Mapping
from typing import Any, TypeAlias

from ..plugin import FormatError

KIND = b"bzsp"

# Anything that declares a range: (start, stop), a range or a slice.
Span: TypeAlias = Any

MAX_NBYTES = 1 << 20
"""Largest payload of the box in bytes: some thousands of splits, more than any dataset has."""

_HEAD = struct.Struct(">II")
_ENTRY = struct.Struct(">QQH")
# Sizes of ImageNet's last two parts: test at the end, validation before it (Benzina 0.0.5,
# torch/dataset.py).
IMAGENET_VAL, IMAGENET_TEST = 50_000, 100_000


def resolve_splits(declared: Mapping[str, Span] | str, count: int) -> dict[str, range]:
    """Return the ranges of declared splits.

    Parameters
    ----------
    declared : mapping of str to (start, stop), range or slice; or "imagenet"
        Slices may be negative or too long, as for a list; (start, stop) and ranges must be within
        the dataset. "imagenet" stands for ImageNet's positions: the last 100 000 samples are
        "test", the 50 000 before them "val", the rest "train".
    count : int
        Number of samples in the dataset.

    Raises
    ------
    TypeError, ValueError
        A span has another type, has a step, or is not within the dataset.
    """
    if isinstance(declared, str):
        return _imagenet(declared, count)
    if not isinstance(declared, Mapping):
        raise TypeError(f"splits are a mapping or 'imagenet', not {type(declared).__name__}")
    return {_check_name(name): _resolve(name, span, count) for name, span in declared.items()}


def _imagenet(preset: str, count: int) -> dict[str, range]:
    if preset != "imagenet":
        raise ValueError(f"splits must be a mapping or 'imagenet', not {preset!r:.80}")
    test = count - IMAGENET_TEST
    val = test - IMAGENET_VAL
    if val < 0:
        raise ValueError(
            f"splits='imagenet' needs {IMAGENET_VAL + IMAGENET_TEST} samples for 'val' and 'test', "
            f"the dataset has {count}"
        )
    return {"train": range(val), "val": range(val, test), "test": range(test, count)}


def _check_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise TypeError(f"the name of a split must be a non-empty str, not {name!r:.80}")
    return name


def _resolve(name: str, span: Span, count: int) -> range:
    if isinstance(span, slice):
        found = range(*span.indices(count))
    elif isinstance(span, range):
        found = span
    else:
        try:
            start, stop = span
            found = range(start, stop)
        except (TypeError, ValueError):
            raise TypeError(
                f"split {name!r:.80} must be (start, stop), a range or a slice, not {span!r:.80}"
            ) from None
    if found.step != 1:
        raise ValueError(f"split {name!r:.80}: a split has no step: {span!r:.80}")
    if not 0 <= found.start <= found.stop <= count:
        raise ValueError(f"split {name!r:.80}: {span!r:.80} is not within {count} samples")
    return found


def pack_splits(splits: Mapping[str, range]) -> bytes:
    """Return the payload of the box that stores splits.

    ValueError if a name takes more than 65535 bytes, or all take more than `MAX_NBYTES`.
    """
    parts = [_HEAD.pack(0, len(splits))]
    for name, span in splits.items():
        encoded = name.encode("utf-8")
        if len(encoded) > 0xFFFF:
            raise ValueError(f"name of split {name!r:.80}: {len(encoded)} bytes, at most 65535")
        parts.append(_ENTRY.pack(span.start, span.stop, len(encoded)) + encoded)
    payload = b"".join(parts)
    if len(payload) > MAX_NBYTES:
        raise ValueError(f"{len(splits)} splits take {len(payload)} bytes, at most {MAX_NBYTES}")
    return payload


def unpack_splits(payload: bytes, count: int) -> dict[str, range]:
    """Return the splits, of `count` samples, stored in the payload of a box."""
    if len(payload) > MAX_NBYTES:
        raise _error(f"it has more than {MAX_NBYTES} bytes")
    if len(payload) < _HEAD.size:
        raise _error(f"{len(payload)} bytes are too few for the number of splits")
    version_flags, nsplits = _HEAD.unpack_from(payload)
    if version_flags >> 24:
        raise _error(f"version {version_flags >> 24} is not supported")
    splits: dict[str, range] = {}
    at = _HEAD.size
    for number in range(nsplits):
        if at + _ENTRY.size > len(payload):
            raise _error(f"{nsplits} splits in {len(payload)} bytes: split {number} is truncated")
        start, stop, nbytes = _ENTRY.unpack_from(payload, at)
        at += _ENTRY.size + nbytes
        if at > len(payload):
            raise _error(f"the name of split {number} is truncated")
        try:
            name = payload[at - nbytes : at].decode("utf-8")
        except UnicodeDecodeError:
            raise _error(f"the name of split {number} is not UTF-8") from None
        if not name or name in splits:
            raise _error(f"split {number}: the name {name!r:.80} is empty or a duplicate")
        if not start <= stop <= count:
            raise _error(f"split {name!r:.80}: {start} to {stop} is not within {count} samples")
        splits[name] = range(start, stop)
    return splits


def _error(what: str) -> FormatError:
    return FormatError(f"splits (moov/udta/bzsp): {what}", field="bzsp")
