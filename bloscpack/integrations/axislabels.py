"""Names of the axes of an array and coordinates along them, kept in its attrs.

``attrs["dims"]`` is a list of names, one for each axis; ``attrs["coords"]`` has an entry for each
coordinate: a list of values along the axis of the same name, a number or text, or an object with
``data`` and maybe ``dims``, ``dtype`` (as numpy writes it, ``"<M8[D]"``) and ``attrs``;
``attrs["name"]`` names the array. What is not as described is an error, not left out: data under a
wrong label are wrong data.
"""

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..arguments import text_list
from ..array.dtype import unpack_scalar
from ..exceptions import BloscpackError, UnsupportedError
from ..types import AnyArray

DEFAULT_NAME = "data"
# xarray's own name for an array without one: its `open_dataarray` removes it.
NO_NAME = "__xarray_dataarray_variable__"
_OURS = ("dims", "coords", "name")

# Texts take the room of the longest of them: what coordinates may become in memory.
_MAX_COORD_NBYTES = 64 << 20
_KINDS = "biufcmMSU"


class Coord(NamedTuple):
    """A coordinate.

    Attributes
    ----------
    dims : tuple of str
        The axes it is along.
    values : ndarray
        With an axis for each.
    attrs : dict
        JSON values.
    """

    dims: tuple[str, ...]
    values: AnyArray
    attrs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Labels:
    """What an array and its axes are called.

    Attributes
    ----------
    name : str
        Of the array.
    dims : tuple of str
        Of its axes.
    coords : dict of str to Coord
        Coordinates along the axes.
    attrs : dict
        What else the attrs have.
    """

    name: str
    dims: tuple[str, ...]
    coords: dict[str, Coord]
    attrs: dict[str, Any]

    @classmethod
    def unpack(
        cls,
        attrs: Mapping[str, Any],
        shape: tuple[int, ...],
        *,
        name: str | None = None,
        dims: Sequence[str] | None = None,
    ) -> "Labels":
        """Return the labels that `attrs` give an array of `shape`.

        With `name` or `dims` these count, and what `attrs` say of them does not. Without dims the
        axes are ``dim_0``, ``dim_1`` and so on.

        Raises
        ------
        UnsupportedError
            The attrs do not fit the shape, or are not as described.
        ValueError
            `dims` do not fit the shape.
        """
        if dims is None:
            names = _dims(attrs.get("dims"), len(shape))
        elif len(text_list("dims", dims)) != len(shape) or len(set(dims)) != len(dims):
            raise ValueError(
                f"dims must name {len(shape)} axes, each by a name of its own, not {dims!r:.200}"
            )
        else:
            names = tuple(dims)
        sizes = dict(zip(names, shape, strict=True))
        described = attrs.get("coords", {})
        if not isinstance(described, dict):
            raise _fault("coords", "no object with an entry for each coordinate")
        coords = {each: _coord(each, value, sizes) for each, value in described.items()}
        if name is None:
            name = attrs.get("name", DEFAULT_NAME)
            if not isinstance(name, str):
                raise _fault("name", f"{name!r:.80}, which is no text")
        if name in names or name in coords:
            raise _fault("name", f"{name!r:.80}, which an axis or a coordinate is called")
        rest = {key: value for key, value in attrs.items() if key not in _OURS}
        return cls(name, names, coords, rest)


def _fault(what: str, why: str) -> UnsupportedError:
    return UnsupportedError(f"attrs: {what} is {why}")


def _dims(value: Any, ndim: int) -> tuple[str, ...]:
    if value is None:
        return tuple(f"dim_{axis}" for axis in range(ndim))
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise _fault("dims", f"{value!r:.80}, which is no list of names")
    if len(value) != ndim or len(set(value)) != ndim:
        raise _fault(
            "dims",
            f"{value!r:.200}, but an array of {ndim} dimensions needs as many names, all "
            "different; give 'dims' to open it all the same",
        )
    return tuple(value)


def _coord(name: str, value: Any, sizes: Mapping[str, int]) -> Coord:
    """Return the coordinate that an entry of ``coords`` describes."""
    what = f"coords[{name!r:.80}]"
    fields = value if isinstance(value, dict) else {"data": value}
    data, attrs = fields.get("data"), fields.get("attrs", {})
    dims = fields.get("dims", [name] if isinstance(data, list) else [])
    if not isinstance(attrs, dict):
        raise _fault(what, "described with attrs that are no object")
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
            raise _fault(what, f"of dtype {dtype!r:.80}, which is no text")
        try:
            wanted = unpack_scalar(dtype)
        except (BloscpackError, ImportError) as err:
            raise _fault(what, f"of a dtype that is none: {err}") from err
    # Objects first: the sizes of texts and of a dtype are told before room is made for them.
    try:
        objects = np.array(data, object)
        values = objects.ravel().tolist()
        longest = max((len(each) for each in values if isinstance(each, str)), default=0)
        itemsize = 4 * longest if wanted is None else wanted.itemsize
        if len(values) * itemsize <= _MAX_COORD_NBYTES:
            found: AnyArray = np.array(values, wanted).reshape(objects.shape)
            if found.dtype.kind in _KINDS and found.size == len(values):
                return found
    except (TypeError, ValueError, OverflowError, RecursionError) as err:
        raise _fault(what, f"not an array: {str(err)[:200]}") from err
    raise _fault(what, "no array of numbers or texts, or too large a one")


def pack_labels(
    name: Hashable | None,
    dims: Sequence[Hashable],
    shape: tuple[int, ...],
    coords: Mapping[Any, tuple[Sequence[Hashable], AnyArray, Mapping[Any, Any]]],
    attrs: Mapping[Any, Any],
) -> dict[str, Any]:
    """Return the attrs from which `Labels.unpack` makes equal labels.

    Parameters
    ----------
    name : str or None
        Of the array.
    dims : sequence of str
        Of its axes.
    shape : tuple of int
        Of the array.
    coords : mapping of str to (dims, values, attrs)
        Coordinates along the axes.
    attrs : mapping
        All else. Numbers and arrays of numpy are stored as JSON numbers and lists.

    Raises
    ------
    TypeError
        Something cannot be stored as JSON, or would be read as something else.
    """
    for each in (*dims, *coords, *attrs):
        if not isinstance(each, str):
            raise TypeError(f"the name {each!r:.80} of an axis, coordinate or attr is not text")
    if name in (*dims, *coords):
        raise TypeError(
            f"the array has the name {name!r:.80} of one of its axes or coordinates; "
            "save x.rename('another')"
        )
    if taken := sorted(set(attrs) & set(_OURS)):
        raise TypeError(
            f"attrs has an entry {taken[0]!r}, a name reserved for the labels of the array; "
            "rename the entry"
        )
    packed: dict[str, Any] = {
        "name": NO_NAME if name is None else name,
        "dims": list(dims),
        "coords": {key: _packed_coord(key, *coord) for key, coord in coords.items()},
    }
    packed |= {key: _as_json(f"attrs[{key!r:.80}]", value) for key, value in attrs.items()}
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
    """Return a value as JSON gives it back."""
    try:
        return json.loads(json.dumps(value, default=_as_builtin))
    except (TypeError, ValueError, RecursionError) as err:
        raise TypeError(f"{what} is not a JSON value: {err}") from err


def _as_builtin(value: Any) -> Any:
    # A long double stays one.
    is_plain = isinstance(value, np.generic | np.ndarray) and value.dtype.kind in "biufU"
    if is_plain and not isinstance(found := value.tolist(), np.generic | np.ndarray):
        return found
    raise TypeError(f"JSON has no place for a {type(value).__name__}")


def _is_equal(one: AnyArray, other: AnyArray) -> bool:
    if one.shape != other.shape or (one.dtype.kind not in "OT" and one.dtype != other.dtype):
        return False
    if one.dtype.kind in "fcmM":
        return bool(np.array_equal(one, other, equal_nan=True))
    return bool(np.array_equal(one, other))
