"""Names of the axes of an array and coordinates along them, stored in its attrs.

``attrs["dims"]`` is a list of names, one per axis. ``attrs["coords"]`` has an entry per coordinate:
a list of values along the axis of the same name, a number or text, or an object with ``data`` and
optionally ``dims``, ``dtype`` (as numpy writes it, ``"<M8[D]"``) and ``attrs``. ``attrs["name"]``
is the name of the array. Labels of any other form raise an error and are not skipped, as data under
a wrong label are wrong data. Axes of the same length may share a name. Other attrs of these names
are in the object ``attrs["_attrs"]``.

Attrs by which libraries decode items, such as ``scale_factor``, have the type of the items, or
float64; ``attrs["_types"]`` has that of each other one. With ``attrs["_decoded"]``, the items are
decoded already.
"""

import json
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..exceptions import BloscpackError, UnsupportedError
from ..format.metadata import encode_values
from ..notice import notice
from ..types import AnyArray, text_list
from .arraylike import is_data_array, is_of
from .dtype import unpack_scalar

DEFAULT_NAME = "data"
# Name by which xarray stores an array without a name: its `open_dataarray` removes it.
NO_NAME = "__xarray_dataarray_variable__"
_OTHERS = "_attrs"  # attrs that have the names of ours
TYPES = "_types"
DECODED = "_decoded"
_OURS = ("dims", "coords", "name", _OTHERS)
# Attrs of the type of the items, and of float64.
_OF_ITEMS = {
    *("_FillValue", "missing_value", "valid_min", "valid_max", "valid_range"),
    *("flag_values", "flag_masks"),
}
OF_SCALING = {"scale_factor", "add_offset"}
_OF_DECODING = {"_FillValue", "missing_value", *OF_SCALING, "_Unsigned", "calendar"}
# First words of the units by which xarray decodes times.
_TIME_UNITS = {
    *("days", "hours", "minutes", "seconds", "milliseconds", "microseconds", "nanoseconds"),
}

# Limit of coordinates in memory: one long text makes every element of its array as large.
_MAX_COORD_NBYTES = 64 << 20
_KINDS = "biufcmMSU"


class Coord(NamedTuple):
    """Coordinate of an array."""

    dims: tuple[str, ...]  # axes of the coordinate
    values: AnyArray  # values, with one dimension per axis
    attrs: dict[str, Any]  # JSON values


@dataclass(frozen=True, slots=True)
class Labels:
    """Names of an array and its axes, and coordinates."""

    name: str  # name of the array
    dims: tuple[str, ...]  # names of its axes
    coords: dict[str, Coord]  # coordinates along the axes
    attrs: dict[str, Any]  # all other attrs

    @classmethod
    def unpack(
        cls,
        attrs: Mapping[str, Any],
        shape: tuple[int, ...],
        *,
        name: str | None = None,
        dims: Sequence[str] | None = None,
    ) -> "Labels":
        """Return the labels in the `attrs` of an array of `shape`.

        `name` and `dims` replace those of the attrs. Without dims the axes are ``dim_0``, ``dim_1``
        and so on.

        Raises
        ------
        UnsupportedError
            The attrs do not fit the shape, or do not have the form described above.
        ValueError
            `dims` do not fit the shape.
        """
        if dims is None:
            names = _dims(attrs.get("dims"), shape)
        elif len(text_list("dims", dims)) != len(shape) or len(set(dims)) != len(dims):
            raise ValueError(
                f"dims must give {len(shape)} axes a name each, all different, not {dims!r:.200}"
            )
        else:
            names = tuple(dims)
        sizes = dict(zip(names, shape, strict=True))
        described = attrs.get("coords", {})
        if not isinstance(described, dict):
            raise _fault("coords", "not an object with an entry for each coordinate")
        coords = {each: _coord(each, value, sizes) for each, value in described.items()}
        if name is None:
            name = attrs.get("name", DEFAULT_NAME)
            if not isinstance(name, str):
                raise _fault("name", f"{name!r:.80}, which is not text")
        if name in names or name in coords:
            raise _fault("name", f"{name!r:.80}, the name of an axis or a coordinate")
        others = attrs.get(_OTHERS, {})
        if not isinstance(others, dict):
            raise _fault(_OTHERS, "not an object")
        rest = {key: value for key, value in attrs.items() if key not in _OURS}
        return cls(name, names, coords, rest | others)

    @property
    def is_decoded(self) -> bool:
        """Whether attrs that describe how to decode items are of no effect."""
        return self.attrs.get(DECODED) is True


def packed_attrs(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return attrs whose names do not collide with those of labels."""
    taken = {key: value for key, value in attrs.items() if key in _OURS}
    rest = {key: value for key, value in attrs.items() if key not in taken}
    return rest | {_OTHERS: taken} if taken else rest


def types_of(attrs: Mapping[str, Any], dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return the entry with the types of those attrs of another library that need it, or {}."""
    found = {
        key: value.dtype.str
        for key, value in attrs.items()
        if isinstance(value, np.generic | np.ndarray)
        and value.dtype.kind in "iuf"
        and key in _OF_ITEMS | OF_SCALING
        and value.dtype.newbyteorder("=")
        != (_type_of(key, dtype) or np.array(value.tolist()).dtype)
    }
    return {TYPES: found} if found else {}


def _type_of(key: str, dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    if key in OF_SCALING:
        return np.dtype("f8")
    if dtype.kind == "b":
        return np.dtype("i1")  # as netCDF has booleans
    return dtype.newbyteorder("=") if dtype.kind in "iuf" and dtype.itemsize <= 8 else None


def typed(attrs: Mapping[str, Any], dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return attrs for another library: those by which it decodes items of `dtype` have a type."""
    types = attrs.get(TYPES)
    ours = {TYPES} if isinstance(types, dict) else set()
    ours |= {DECODED} if attrs.get(DECODED) is True else set()
    found = {key: value for key, value in attrs.items() if key not in ours}
    for key in found.keys() & (_OF_ITEMS | OF_SCALING):
        given = types.get(key) if isinstance(types, dict) else None
        with suppress(TypeError, ValueError, OverflowError), np.errstate(invalid="ignore"):
            wanted = np.dtype(given) if isinstance(given, str) else _type_of(key, dtype)
            value = np.array(found[key])
            if wanted is not None and value.dtype.kind in "iuf" and wanted.kind in "iuf":
                cast = value.astype(wanted)
                is_rounded = value.dtype.kind == wanted.kind == "f"
                # A value that the type does not have, such as NaN among integers, stays as it is.
                if is_rounded or cast.astype(value.dtype).tobytes() == value.tobytes():
                    found[key] = cast[()]
    return found


def is_decoded_by(attrs: Mapping[str, Any]) -> bool:
    """Return whether libraries decode items by these attrs."""
    is_time = " since " in str(attrs.get("units")) or "timedelta64" in str(attrs.get("dtype"))
    return is_time or bool(attrs.keys() & _OF_DECODING)


def hidden_attrs(attrs: Mapping[str, Any]) -> set[str]:
    """Return the attrs by which libraries would decode items again that are decoded already."""
    if attrs.get(DECODED) is not True:
        return set()
    is_time = str(attrs.get("units")).partition(" ")[0] in _TIME_UNITS
    return attrs.keys() & {*_OF_DECODING, "dtype", *["units"] * is_time}


def _fault(what: str, why: str) -> UnsupportedError:
    return UnsupportedError(f"attrs: {what} is {why}")


def _dims(value: Any, shape: tuple[int, ...]) -> tuple[str, ...]:
    ndim = len(shape)
    if value is None:
        return tuple(f"dim_{axis}" for axis in range(ndim))
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise _fault("dims", f"{value!r:.80}, which is not a list of names")
    if len(value) != ndim or len({*zip(value, shape, strict=True)}) != len({*value}):
        raise _fault(
            "dims",
            f"{value!r:.200}, but an array of {ndim} dimensions needs as many names, all "
            "different; give 'dims' to open it anyway",
        )
    return tuple(value)


def _coord(name: str, value: Any, sizes: Mapping[str, int]) -> Coord:
    """Return the coordinate that an entry of ``coords`` describes."""
    what = f"coords[{name!r:.80}]"
    fields = value if isinstance(value, dict) else {"data": value}
    data, attrs = fields.get("data"), fields.get("attrs", {})
    dims = fields.get("dims", [name] if isinstance(data, list) else [])
    if not isinstance(attrs, dict):
        raise _fault(what, "described with attrs that are not an object")
    if not isinstance(dims, list) or not all(isinstance(d, str) and d in sizes for d in dims):
        raise _fault(what, f"along {dims!r:.80}; the dims are {list(sizes)!r:.200}")
    if len(set(dims)) != len(dims) or (name in sizes and dims != [name]):
        raise _fault(what, f"along {dims!r:.80}; it may be along each axis once, or its own alone")
    values = _values(what, data, fields.get("dtype"))
    shape = tuple(sizes[each] for each in dims)
    if values.shape != shape:
        raise _fault(what, f"of shape {values.shape}, but its dims have {shape}")
    return Coord(tuple(dims), values, attrs)


def _values(what: str, data: Any, dtype: Any) -> AnyArray:
    """Return JSON values as an array."""
    wanted = None
    if dtype is not None:
        if not isinstance(dtype, str):
            raise _fault(what, f"of dtype {dtype!r:.80}, which is not text")
        try:
            wanted = unpack_scalar(dtype)
        except (BloscpackError, ImportError) as err:
            raise _fault(what, f"of an invalid dtype: {err}") from err
    # An array of objects first, so that the size of the result is known before it is allocated.
    try:
        objects = np.array(data, object)
        values = objects.ravel().tolist()
        longest = max((len(each) for each in values if isinstance(each, str)), default=0)
        itemsize = 4 * longest if wanted is None else wanted.itemsize
        if len(values) * itemsize <= _MAX_COORD_NBYTES:
            with np.errstate(over="raise"):
                found: AnyArray = np.array(values, wanted).reshape(objects.shape)
            if found.dtype.kind in _KINDS and found.size == len(values):
                if wanted is not None and _is_cut(values, longest, found):
                    raise _fault(what, f"of values that do not fit dtype {dtype!r:.80}")
                return found
    except (TypeError, ValueError, ArithmeticError, RecursionError) as err:
        raise _fault(what, f"not an array: {str(err)[:200]}") from err
    raise _fault(what, "not an array of numbers or texts, or too large")


def _is_cut(values: list[Any], longest: int, found: AnyArray) -> bool:
    """Return whether numpy has cut texts, or the fractions of numbers, to make `found`."""
    if found.dtype.kind in "US":
        room = found.dtype.itemsize // (4 if found.dtype.kind == "U" else 1)
        return longest > room or not all(isinstance(each, str) for each in values)
    return found.dtype.kind in "biu" and found.ravel().tolist() != values


def pack_labels(
    name: Hashable | None,
    dims: Sequence[Hashable],
    shape: tuple[int, ...],
    coords: Mapping[Any, tuple[Sequence[Hashable], AnyArray, Mapping[Any, Any]]],
    attrs: Mapping[Any, Any],
) -> dict[str, Any]:
    """Return attrs that `Labels.unpack` converts back to equal labels.

    Parameters
    ----------
    name : str or None
        Name of the array.
    dims : sequence of str
        Names of its axes.
    shape : tuple of int
        Shape of the array.
    coords : mapping of str to (dims, values, attrs)
        Coordinates along the axes.
    attrs : mapping
        All other attrs. Numbers and arrays of numpy are stored as JSON numbers and lists.

    Raises
    ------
    TypeError
        A label cannot be stored as JSON, or would not be read back equal.
    """
    for each in (*dims, *coords, *attrs):
        if not isinstance(each, str):
            raise TypeError(f"the name {each!r:.80} of an axis, coordinate or attr is not text")
    if name in (*dims, *coords):
        raise TypeError(
            f"the array has the name {name!r:.80} of one of its axes or coordinates; "
            "save x.rename('another')"
        )
    packed: dict[str, Any] = {
        "name": NO_NAME if name is None else name,
        "dims": list(dims),
        "coords": {key: _packed_coord(key, *coord) for key, coord in coords.items()},
    }
    plain = {key: _as_json(f"attrs[{key!r:.80}]", value) for key, value in attrs.items()}
    packed |= packed_attrs(plain)
    try:
        found = Labels.unpack(packed, shape)
    except BloscpackError as err:
        raise TypeError(f"its labels cannot be stored: {err}") from err
    for key, (_, values, _) in coords.items():
        if not _is_equal(values, found.coords[key].values):
            raise TypeError(
                f"coords[{key!r:.80}] of dtype {values.dtype} would not be read back equal; "
                "drop it, or convert it to numbers or text"
            )
    return packed


def unlabelled(value: Any) -> tuple[Any, dict[str, Any]]:
    """Return the array of a DataArray, or another value, and JSON values of its labels and attrs.

    Attrs of other values that are not JSON values, such as references of HDF5, are left out with a
    notice.

    Raises
    ------
    TypeError
        A label cannot be stored as JSON; or it is a Dataset with coordinates of no variable.
    """
    if is_data_array(value):
        coords = {name: (each.dims, each.values, each.attrs) for name, each in value.coords.items()}
        attrs = dict(value.attrs)
        if taken := sorted(attrs.keys() & _OURS):
            raise TypeError(
                f"attrs has an entry {taken[0]!r}, a name reserved for the labels of the array; "
                "rename the entry"
            )
        if any(is_decoded_by(each) for each in (attrs, *(each for _, _, each in coords.values()))):
            attrs[DECODED] = True
        return value.data, pack_labels(value.name, value.dims, value.shape, coords, attrs)
    if is_of(value, "xarray", "Dataset"):
        kept = {name for each in value.data_vars.values() for name in each.coords}
        if lost := sorted(set(map(str, value.coords)) - set(map(str, kept))):
            raise TypeError(
                f"the coordinate {lost[0]!r:.80} belongs to no variable of the Dataset: "
                "save x.drop_vars(...), or x.reset_coords(...) to make it a variable"
            )
    attrs = {}
    found = getattr(value, "attrs", None)
    for name, each in found.items() if isinstance(found, Mapping) else ():
        try:
            attrs |= _as_json("attrs", {name: each})
        except (TypeError, ValueError) as err:
            notice("attribute %.80r is left out: %s", name, err)
    return value, attrs


def _packed_coord(
    name: str, dims: Sequence[Hashable], values: AnyArray, attrs: Mapping[Any, Any]
) -> dict[str, Any]:
    what = f"coords[{name!r:.80}]"
    kind = values.dtype.kind
    entry: dict[str, Any] = {"dims": list(dims)}
    if kind == "O":
        if not all(isinstance(each, str) for each in values.ravel()):
            raise TypeError(
                f"{what} holds Python objects, which are not stored; convert it to numbers or "
                "text, or use x.reset_index() if it is a MultiIndex"
            )
    elif kind != "T":
        entry["dtype"] = values.dtype.str
    if kind == "M":
        values = np.datetime_as_string(values)
    elif kind == "m":
        values = values.view("i8")
    elif kind == "S":
        values = np.char.decode(values, "ascii", "replace")
    elif kind == "c":
        values = values.astype(str)
    entry["data"] = _as_json(what, values.tolist())
    if attrs:
        entry["attrs"] = _as_json(f"{what}.attrs", dict(attrs))
    return entry


def _as_json(what: str, value: Any) -> Any:
    """Return a value after conversion to JSON and back."""
    return json.loads(encode_values(value, what))


def _is_equal(one: AnyArray, other: AnyArray) -> bool:
    if one.shape != other.shape or (one.dtype.kind not in "OT" and one.dtype != other.dtype):
        return False
    if one.dtype.kind in "fcmM":
        return bool(np.array_equal(one, other, equal_nan=True))
    return bool(np.array_equal(one, other))
