"""Attrs of an array, with its dims and coordinates, in a form that can be compared."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..array.axislabels import (
    DECODED,
    NO_NAME,
    Coord,
    Labels,
    is_ascii,
    is_same_coord,
    is_same_json,
    packed_attrs,
    stored_attrs,
    typed,
)
from ..exceptions import BloscpackError
from ..parallel.imports import importing
from ..types import AnyArray
from .arraysource import ArraySource, Rows
from .copyjob import CopyJob
from .inventory import attribute, quoted

LABEL_KEYS = ("name", "dims", "coords")
# Units of times by those of numpy.
_TIME_UNITS = {
    "D": "days",
    "h": "hours",
    "m": "minutes",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
}
Coords = Mapping[Any, tuple[Sequence[str], Any, Mapping[Any, Any]]]


def labels_of(attrs: Mapping[str, Any], shape: tuple[int, ...]) -> Labels | None:
    """Return the labels in attrs; None if there are none, or not in a form that is understood."""
    if not any(key in attrs for key in LABEL_KEYS):
        return None
    try:
        return Labels.unpack(attrs, shape)
    except BloscpackError:
        return None


def labelled(
    source: ArraySource, job: CopyJob, of: str, coords: Coords | None = None
) -> ArraySource:
    """Return an array as HDF5 has it, with all labels.

    `coords` replace those of the attrs.
    """
    shape, attrs = source.rows.shape, dict(source.attrs)
    labels = labels_of(attrs, shape)
    if labels is not None:
        name, coords = labels.name, _held(labels, job, of) if coords is None else coords
        is_taken = name in labels.dims or name in coords
        found = {}
        for key, (axes, data, own) in coords.items():
            exact = _exact(own, data.dtype, job, f"coordinates {quoted(key)} of {of}")
            found[key] = Coord(tuple(axes), data, exact)
        entries = {"name": NO_NAME if is_taken else name, "dims": [*labels.dims], "coords": found}
        attrs = entries | packed_attrs(labels.attrs)
    others = {key: each for key, each in attrs.items() if key != "coords"}
    return source._replace(attrs=attrs | _exact(others, source.rows.dtype, job, of))


def _exact(attrs: Mapping[str, Any], dtype: Any, job: CopyJob, of: str) -> dict[str, Any]:
    """Return attrs as they are beside items of a type: a fill value of 1 is 1.0 for floats.

    The job notes those that get the precision of the items.
    """
    exact = {key: plain_value(each) for key, each in typed(attrs, dtype).items()}
    rounded = [key for key in exact if not is_same_json(attrs[key], exact[key])]
    rounded = [key for key in rounded if np.any(np.not_equal(attrs[key], exact[key]))]
    job.leave_out(*(f"digits of {attribute(key, of)}, beyond its items'" for key in rounded))
    return {**attrs, **exact}


def _held(labels: Labels, job: CopyJob, of: str) -> dict[str, Coord]:
    """Return the coordinates that another file can hold: all but bytes that are not text."""
    found = {}
    for key, coord in labels.coords.items():
        if is_ascii(coord.data):
            found[key] = coord
        else:
            job.leave_out(f"coordinates {quoted(key)} of {of}: bytes that are not ASCII")
    return found


def encoded(source: ArraySource, job: CopyJob, of: str) -> ArraySource:
    """Return an array as netCDF and Zarr have it, in the byte order of this machine."""
    return encoded_times(source.native(), job, of)


def encoded_times(source: ArraySource, job: CopyJob, of: str) -> ArraySource:
    """Return an array as Zarr of format 2 has it, whose coordinates are numbers and text.

    Times become numbers, with the units that xarray chooses.
    """
    labels = labels_of(source.attrs, source.rows.shape)
    coords: dict[str, Coord] = {}
    for key, coord in (_held(labels, job, of) if labels else {}).items():
        values, attrs = coord.values, coord.attrs
        if values.dtype.kind == "S":
            values = np.char.decode(values, "ascii")
            job.leave_out(f"type of coordinates {quoted(key)} of {of}: bytes become text")
        if values.dtype.kind in "mM":
            with importing:
                import xarray as xr  # on use: only times need it

            found = xr.conventions.encode_cf_variable(xr.Variable(coord.dims, values))
            values, attrs = found.values, {**attrs, **found.attrs}
        coords[key] = Coord(coord.dims, values, attrs)
    return labelled(source, job, of, coords)


def encoded_items(source: ArraySource, job: CopyJob, of: str) -> ArraySource:
    """Return an array as netCDF has it, whose times are numbers with a unit."""
    source = encoded(source, job, of)
    rows, dtype = source.rows, source.rows.dtype
    code = dtype.str.partition("[")[2].rstrip("]")
    unit = _TIME_UNITS.get(code)
    if unit is None or source.attrs.keys() & {"units", "calendar", DECODED}:
        return source

    def read(place: tuple[slice, ...]) -> AnyArray:
        return np.asarray(rows.read(place), order="C").view("i8")

    attrs = {"units": f"{unit} since 1970-01-01", "calendar": "proleptic_gregorian"}
    if dtype.kind == "m":  # xarray has no longer unit than seconds
        attrs = {"units": unit, "dtype": f"timedelta64[{code if code[-1] == 's' else 's'}]"}
    return source._replace(rows=Rows(rows.shape, np.dtype("i8"), read), attrs=source.attrs | attrs)


def is_same(one: Mapping[str, Any], two: Mapping[str, Any], shape: tuple[int, ...]) -> bool:
    """Return whether attrs are equal; times may have other units."""
    try:
        first, second = (Labels.unpack(attrs, shape) for attrs in (one, two))
    except BloscpackError:
        return is_same_json(*(stored_attrs(attrs, shape) for attrs in (one, two)))
    return (
        is_same_json(
            [first.name, first.dims, first.attrs], [second.name, second.dims, second.attrs]
        )
        and first.coords.keys() == second.coords.keys()
        and all(is_same_coord(coord, second.coords[key]) for key, coord in first.coords.items())
    )


def others_of(attrs: Mapping[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
    """Return all attrs that are not labels."""
    labels = labels_of(attrs, shape)
    if labels is not None:
        return labels.attrs
    others = attrs.get("_attrs")
    rest = {key: value for key, value in attrs.items() if key != "_attrs"}
    return rest | others if isinstance(others, dict) else dict(attrs)


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
