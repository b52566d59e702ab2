"""Attrs of an array, with its dims and coordinates, in a form that can be compared."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...exceptions import BloscpackError
from ...filetypes.arraysource import ArraySource
from ...notice import notice
from ...types import AnyArray
from ..axislabels import DEFAULT_NAME, Coord, Labels, pack_labels

LABEL_KEYS = ("name", "dims", "coords")
Coords = Mapping[Any, tuple[Sequence[str], AnyArray, Mapping[Any, Any]]]


def labels_of(attrs: Mapping[str, Any], shape: tuple[int, ...]) -> Labels | None:
    """Return the labels in attrs; None if there are none, or not in a form that is understood."""
    if not any(key in attrs for key in LABEL_KEYS):
        return None
    try:
        return Labels.unpack(attrs, shape)
    except BloscpackError:
        return None


def canonical(
    attrs: Mapping[str, Any], shape: tuple[int, ...], coords: Coords | None = None
) -> dict[str, Any]:
    """Return attrs whose labels, if they have any, are written as `pack_labels` writes them.

    `coords` replace those of the attrs.
    """
    labels = labels_of(attrs, shape)
    if labels is None:
        return dict(attrs)
    return _packed(labels.name, labels.dims, shape, coords or labels.coords, labels.attrs)


def encoded(source: ArraySource) -> ArraySource:
    """Return an array as netCDF and Zarr have it, in the byte order of this machine."""
    return encoded_times(source.native())


def encoded_times(source: ArraySource) -> ArraySource:
    """Return an array whose coordinates are numbers and text.

    Times become numbers, with the units that xarray chooses.
    """
    labels = labels_of(source.attrs, source.rows.shape)
    if labels is None:
        return source
    coords: dict[str, Coord] = {}
    for key, coord in labels.coords.items():
        values, attrs = coord.values, coord.attrs
        if values.dtype.kind == "S":
            values = np.char.decode(values, "ascii", "replace")
        if values.dtype.kind in "mM":
            import xarray as xr  # on use: only times need it

            found = xr.conventions.encode_cf_variable(xr.Variable(coord.dims, values))
            values, attrs = found.values, {**attrs, **found.attrs}
        coords[key] = Coord(coord.dims, values, attrs)
    attrs = canonical(source.attrs, source.rows.shape, coords)
    return source._replace(attrs=attrs)


def is_same(one: Mapping[str, Any], two: Mapping[str, Any], shape: tuple[int, ...]) -> bool:
    """Return whether attrs are equal; times may have other units."""
    try:
        found = [Labels.unpack(attrs, shape) for attrs in (one, two)]
    except BloscpackError:
        return _text(one) == _text(two)
    texts = [
        _text(
            [
                *(each.name, each.dims, each.attrs),
                {key: (coord.dims, coord.attrs) for key, coord in each.coords.items()},
            ]
        )
        for each in found
    ]
    return texts[0] == texts[1] and all(
        np.array_equal(coord.values, found[1].coords[key].values, equal_nan=_has_nan(coord.values))
        for key, coord in found[0].coords.items()
    )


def _has_nan(values: AnyArray) -> bool:
    return values.dtype.kind in "fcmM"


def others_of(attrs: Mapping[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
    """Return all attrs that are not labels."""
    labels = labels_of(attrs, shape)
    if labels is not None:
        return labels.attrs
    others = attrs.get("_attrs")
    rest = {key: value for key, value in attrs.items() if key != "_attrs"}
    return rest | others if isinstance(others, dict) else dict(attrs)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def attrs_with(
    name: str | None,
    dims: Sequence[str] | None,
    shape: tuple[int, ...],
    coords: Coords,
    attrs: Iterable[tuple[str, Any]],
    where: str | None,
) -> dict[str, Any]:
    """Return attrs of an array of another library; what JSON cannot hold is left out and reported.

    Parameters
    ----------
    name : str or None
        Name of the array.
    dims : sequence of str, optional
        Names of its axes; without them, name and coordinates are left out.
    shape : tuple of int
        Its shape.
    coords : mapping of str to (dims, values, attrs)
        Coordinates.
    attrs : iterable of (str, value)
        Other attributes.
    where : str or None
        The file, for messages.
    """
    found: dict[str, Any] = {}
    lost = []
    for key, value in attrs:
        try:
            found[key] = plain_value(value)
        except (TypeError, ValueError):
            lost.append(key)
    defaults = [f"dim_{axis}" for axis in range(len(shape))]
    is_default = dims == defaults and not coords and name in (None, DEFAULT_NAME)
    if dims is not None and (is_default or len(set(dims)) != len(shape)):
        dims = None
    if dims is not None:
        found = {key: value for key, value in found.items() if key not in LABEL_KEYS}
        kept = {}
        for key, (along, values, others) in coords.items():
            try:
                plain = {each: plain_value(value) for each, value in others.items()}
                entry = {key: (tuple(along), values, plain)}
                _packed(None, dims, shape, entry, {})
                kept.update(entry)
            except (TypeError, ValueError):
                lost.append(key)
        found = _packed(name or DEFAULT_NAME, dims, shape, kept, found)
    if lost:
        notice("%s: not JSON values, so left out: %s", where or "the source", ", ".join(lost))
    return found


def _packed(
    name: str | None, dims: Sequence[str], shape: tuple[int, ...], coords: Coords, attrs: Any
) -> dict[str, Any]:
    return pack_labels(None if name in dims or name in coords else name, dims, shape, coords, attrs)


def plain_value(value: Any) -> Any:
    """Return a value of another library as a JSON value."""
    if isinstance(value, np.generic | np.ndarray):
        if value.dtype.kind not in "biufSUO":
            raise TypeError("not a JSON value")
        value = value.tolist()
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list | tuple):
        return [plain_value(each) for each in value]
    if isinstance(value, dict):
        return {str(key): plain_value(each) for key, each in value.items()}
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise TypeError("not a JSON value")
