"""Names of the axes of an array and coordinates along them, stored in its attrs.

``attrs["dims"]`` is a list of names, one per axis. ``attrs["coords"]`` has an entry per coordinate:
a list of values along the axis of the same name, a number or text, or an object with ``data`` and
optionally ``dims``, ``dtype`` (as numpy writes it, ``"<M8[D]"``) and ``attrs``. ``attrs["name"]``
is the name of the array. Labels of any other form raise an error and are not skipped, as data under
a wrong label are wrong data. Axes of the same length may share a name. Other attrs of these names
are in the object ``attrs["_attrs"]``.

Evenly spaced values along one axis are ``{"start": START, "step": STEP}`` as ``data``: `Even`. In
an archive, long coordinates are arrays of their own, which all others share: ``{"array": NAME}`` as
the entry. Such an array has ``attrs["_coordinate"]``, and the dims and attrs of the coordinate.

Attrs by which libraries decode items, such as ``scale_factor``, have the type of the items, or
float64; ``attrs["_types"]`` has that of each other one. With ``attrs["_decoded"]``, the items are
decoded already.
"""

import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..exceptions import BloscpackError, NotFoundError, UnsupportedError
from ..format.metadata import encode_values
from ..keywords import text_list
from ..types import AnyArray
from .attrs import coords_in, dims_of, plain
from .dtype import unpack_scalar

DEFAULT_NAME = "data"
# Name by which xarray stores an array without a name: its `open_dataarray` removes it.
NO_NAME = "__xarray_dataarray_variable__"
# Name by which xarray stores a variable of a dataset whose name is None.
NONE_NAME = "__values__"
_OTHERS = "_attrs"  # attrs that have the names of ours
COORDINATE = "_coordinate"  # of an array that is a coordinate of others
TYPES = "_types"
UNLIMITED = "_unlimited"  # of all arrays of a file: axes whose length is unlimited in netCDF
DECODED = "_decoded"
OURS = ("dims", "coords", "name", _OTHERS, COORDINATE)
# Attrs of the type of the items, and of float64.
_OF_ITEMS = {
    *("_FillValue", "missing_value", "valid_min", "valid_max", "valid_range"),
    *("flag_values", "flag_masks"),
}
OF_SCALING = {"scale_factor", "add_offset"}
_OF_DECODING = {"_FillValue", "missing_value", *OF_SCALING, "_Unsigned", "calendar", "_Encoding"}
_MAX_ENTRY_NBYTES = 4096  # JSON of a coordinate that stays in the attrs of an array of an archive
# First words of the units by which xarray decodes times.
_TIME_UNITS = {
    *("days", "hours", "minutes", "seconds", "milliseconds", "microseconds", "nanoseconds"),
}

# Limit of coordinates in memory: one long text makes every element of its array as large.
_MAX_COORD_NBYTES = 64 << 20
KINDS = "biufcmMSU"
# Fewer values stay a list, which people read and change.
_MIN_EVEN = 16
_MAX_EVEN_NBYTES = 1 << 30


class Even(NamedTuple):
    """Evenly spaced numbers or times, which are computed when they are asked for.

    Item `i` is ``start + i * step``: for integers and the counts of times exactly, modulo 2^64, for
    floats with the product and then the sum rounded to float64, and the sum to the type.
    """

    start: float
    step: float
    size: int
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int]:
        """Number of items, in a tuple."""
        return (self.size,)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        """Return all items."""
        found = self.items(0, self.size)
        return found if dtype is None else found.astype(dtype)

    def items(self, first: int, stop: int) -> AnyArray:
        """Return the items `first` to `stop`, which may be beyond the last one."""
        if self.dtype.kind == "f":
            with np.errstate(over="ignore"):  # an item that is infinite has other bits
                counts = np.arange(first, stop) * np.float64(self.step) + np.float64(self.start)
                return counts.astype(self.dtype)
        start, step = (np.uint64(each % 2**64) for each in (self.start, self.step))
        integers = np.arange(first, stop, dtype="u8") * step + start
        return integers.astype(_counts_of(self.dtype)).view(self.dtype)

    def pack(self) -> dict[str, Any]:
        """Return the JSON value."""
        return {"start": self.start, "step": self.step}

    @classmethod
    def of(cls, values: AnyArray) -> "Even | None":
        """Return values as evenly spaced ones, None if an item would differ in any bit."""
        if values.ndim != 1 or values.size < _MIN_EVEN or values.dtype.kind not in "iufmM":
            return None
        if values.dtype.kind == "f" and (
            values.dtype.itemsize > 8 or not np.isfinite(values[[0, -1]]).all()
        ):
            return None
        stored = np.ascontiguousarray(values).tobytes()
        for start, step in _spacings(values):
            found = cls(start, step, values.size, values.dtype)
            # Most values that are not even differ near the start.
            head = np.asarray(found._replace(size=_MIN_EVEN)).tobytes()
            if stored.startswith(head) and np.asarray(found).tobytes() == stored:
                return found
        return None


def _spacings(values: AnyArray) -> Iterator[tuple[float, float]]:
    """Yield the starts and steps by which values may have been computed."""
    if values.dtype.kind != "f":
        first, second = values[:2].view(_counts_of(values.dtype)).tolist()
        yield first, second - first
        return
    first, second, last = values[[0, 1, -1]].astype("f8").tolist()
    mean = (last - first) / (values.size - 1)
    # Computed with more digits than the type has: by short decimals, or a fraction of one.
    steps = [second - first, mean, *(float(f"{mean:.{digits}g}") for digits in range(2, 16))]
    steps += [1 / round(1 / mean)] if 1e-9 < abs(mean) < 1 else []
    for start in dict.fromkeys((first, float(str(values[0])))):
        yield from ((start, step) for step in dict.fromkeys(steps) if np.isfinite(step))


def _counts_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of the integers that times of a type are."""
    return np.dtype("i8").newbyteorder(dtype.byteorder) if dtype.kind in "mM" else dtype


class Coord(NamedTuple):
    """Coordinate of an array."""

    dims: tuple[str, ...]  # axes of the coordinate
    data: Any  # its values as they are stored: an array in memory or in a file, or `Even`
    attrs: dict[str, Any]  # JSON values

    @property
    def values(self) -> AnyArray:
        """Values, with one dimension per axis."""
        return np.asarray(self.data)

    @property
    def array_attrs(self) -> dict[str, Any]:
        """Attrs with which it is stored as an array of an archive."""
        return {"dims": list(self.dims), COORDINATE: True, **packed_attrs(self.attrs)}


# Stores a coordinate as an array, and returns its name; None if it has to stay in the attrs.
Store: TypeAlias = Callable[[str, Coord], str | None]


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
        open_array: Callable[[str], Any] | None = None,
    ) -> "Labels":
        """Return the labels in the `attrs` of an array of `shape`.

        `name` and `dims` replace those of the attrs. Without dims the axes are ``dim_0``, ``dim_1``
        and so on. `open_array` opens an array of the same archive, whose items are not read.

        Raises
        ------
        UnsupportedError
            The attrs do not fit the shape, or do not have the form described above.
        ValueError
            `dims` do not fit the shape.
        """
        if dims is None:
            names = dims_of(attrs, shape)
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
        coords = {each: _coord(each, value, sizes, open_array) for each, value in described.items()}
        if name is None:
            name = attrs.get("name", DEFAULT_NAME)
            if not isinstance(name, str):
                raise _fault("name", f"{name!r:.80}, which is not text")
        if name in names or name in coords:
            raise _fault("name", f"{name!r:.80}, the name of an axis or a coordinate")
        others = attrs.get(_OTHERS, {})
        if not isinstance(others, dict):
            raise _fault(_OTHERS, "not an object")
        rest = {key: value for key, value in attrs.items() if key not in OURS}
        return cls(name, names, coords, rest | others)

    @property
    def is_decoded(self) -> bool:
        """Whether attrs that describe how to decode items are of no effect."""
        return self.attrs.get(DECODED) is True


def packed_attrs(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return attrs whose names do not collide with those of labels."""
    taken = {key: value for key, value in attrs.items() if key in OURS}
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
    is_typed = attrs.get("dtype") == "bool" or "timedelta64" in str(attrs.get("dtype"))
    is_time = " since " in str(attrs.get("units"))
    return is_time or is_typed or bool(attrs.keys() & {*_OF_DECODING, "coordinates"})


def hidden_attrs(attrs: Mapping[str, Any]) -> set[str]:
    """Return the attrs by which libraries would decode items again that are decoded already."""
    if attrs.get(DECODED) is not True:
        return set()
    is_time = str(attrs.get("units")).partition(" ")[0] in _TIME_UNITS
    return attrs.keys() & {*_OF_DECODING, "dtype", *["units"] * is_time}


def _fault(what: str, why: str) -> UnsupportedError:
    return UnsupportedError(f"attrs: {what} is {why}")


def _coord(
    name: str, value: Any, sizes: Mapping[str, int], open_array: Callable[[str], Any] | None
) -> Coord:
    """Return the coordinate that an entry of ``coords`` describes."""
    what = f"coords[{name!r:.80}]"
    fields = value if isinstance(value, dict) else {"data": value}
    if isinstance(value, Coord):
        fields = {"data": value.data, "dims": [*value.dims], "attrs": value.attrs}
    is_array = "array" in fields or isinstance(value, Coord)
    if "array" in fields:
        fields = _fields_of_array(what, fields["array"], open_array)
    data, attrs = fields.get("data"), fields.get("attrs", {})
    dims = fields.get("dims", [name] if isinstance(data, list) else [])
    if not isinstance(attrs, dict):
        raise _fault(what, "described with attrs that are not an object")
    if not isinstance(dims, list) or not all(isinstance(d, str) and d in sizes for d in dims):
        raise _fault(what, f"along {dims!r:.80}; the dims are {list(sizes)!r:.200}")
    if len(set(dims)) != len(dims) or (name in sizes and dims != [name]):
        raise _fault(what, f"along {dims!r:.80}; it may be along each axis once, or its own alone")
    shape = tuple(sizes[each] for each in dims)
    if isinstance(data, dict):
        return Coord(tuple(dims), _even(what, data, fields.get("dtype"), shape), attrs)
    values: Any = data if is_array else _values(what, data, fields.get("dtype"))
    if values.shape != shape:
        raise _fault(what, f"of shape {values.shape}, but its dims have {shape}")
    return Coord(tuple(dims), values, attrs)


def _fields_of_array(
    what: str, name: Any, open_array: Callable[[str], Any] | None
) -> dict[str, Any]:
    if not isinstance(name, str) or open_array is None:
        raise _fault(what, f"the array {name!r:.80} of an archive, which is not open")
    try:
        array = open_array(name)
    except NotFoundError as err:
        raise _fault(what, f"missing: {err}") from err
    labels = Labels.unpack(plain(array.attrs), array.shape)
    return {"dims": [*labels.dims], "data": array, "attrs": labels.attrs}


def _dtype(what: str, dtype: Any) -> np.dtype[Any]:
    if not isinstance(dtype, str):
        raise _fault(what, f"of dtype {dtype!r:.80}, which is not text")
    try:
        return unpack_scalar(dtype)
    except (BloscpackError, ImportError) as err:
        raise _fault(what, f"of an invalid dtype: {err}") from err


def _even(what: str, data: dict[str, Any], dtype: Any, shape: tuple[int, ...]) -> Even:
    """Return evenly spaced values by their start and step."""
    if data.keys() != {"start", "step"} or len(shape) != 1:
        raise _fault(what, "not an array: of one axis, evenly spaced values have start and step")
    found, (start, step) = _dtype(what, dtype), (data["start"], data["step"])
    allowed = {"f": (int, float), **dict.fromkeys("iumM", (int,))}.get(found.kind, ())
    if not (type(start) in allowed and type(step) in allowed and found.itemsize <= 8):
        raise _fault(what, f"of evenly spaced values that do not fit dtype {dtype!r:.80}")
    if shape[0] * found.itemsize > _MAX_EVEN_NBYTES:
        raise _fault(what, "too large")
    last = start + max(shape[0] - 1, 0) * step
    if found.kind == "f":
        is_inside = all(map(isfinite, (start, step)))
    else:
        limits = np.iinfo(_counts_of(found))
        is_inside = all(limits.min <= each <= limits.max for each in (start, last))
    if not is_inside:
        raise _fault(what, f"of evenly spaced values that do not fit dtype {dtype!r:.80}")
    return Even(start, step, shape[0], found)


def _values(what: str, data: Any, dtype: Any) -> AnyArray:
    """Return JSON values as an array."""
    wanted = None if dtype is None else _dtype(what, dtype)
    # An array of objects first, so that the size of the result is known before it is allocated.
    try:
        objects = np.array(data, object)
        values = objects.ravel().tolist()
        longest = max((len(each) for each in values if isinstance(each, str)), default=0)
        itemsize = 4 * longest if wanted is None else wanted.itemsize
        if len(values) * itemsize <= _MAX_COORD_NBYTES:
            with np.errstate(over="raise"):
                found: AnyArray = np.array(values, wanted).reshape(objects.shape)
            if found.dtype.kind in KINDS and found.size == len(values):
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
    coords: Mapping[Any, tuple[Sequence[Hashable], Any, Mapping[Any, Any]]],
    attrs: Mapping[Any, Any],
    store: Store | None = None,
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
    store : callable, optional
        Stores long coordinates.

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
        "coords": {
            key: _packed_coord(key, Coord(*coord), store)  # type: ignore[arg-type]
            for key, coord in coords.items()
        },
    }
    plain = {key: as_json(f"attrs[{key!r:.80}]", value) for key, value in attrs.items()}
    packed |= packed_attrs(plain)
    try:
        listed = {key: each for key, each in packed["coords"].items() if "array" not in each}
        found = Labels.unpack({**packed, "coords": listed}, shape)
    except BloscpackError as err:
        raise TypeError(f"its labels cannot be stored: {err}") from err
    for key, read in found.coords.items():
        data = coords[key][1]
        # Even values were compared when they were found.
        if not (isinstance(read.data, Even) or is_equal(data, read.values)):
            raise TypeError(
                f"coords[{key!r:.80}] of dtype {data.dtype} would not be read back equal; "
                "drop it, or convert it to numbers or text"
            )
    return packed


def opened_attrs(array: Any) -> dict[str, Any]:
    """Return the attrs of an array in a file; entries that are other arrays become a `Coord`."""
    attrs: dict[str, Any] = plain(array.attrs)
    if any("array" in each for each in coord_entries(attrs)):
        opened = array.coords.items()
        attrs["coords"] |= {k: coord for k, coord in opened if "array" in attrs["coords"][k]}
    return attrs


def coord_entries(attrs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of coordinates in attrs that are objects."""
    return [each for each in coords_in(attrs).values() if isinstance(each, dict)]


def stored_attrs(
    attrs: Mapping[str, Any], shape: tuple[int, ...], store: Store | None = None
) -> dict[str, Any]:
    """Return attrs of an array of `shape` as a file has them, with JSON values alone.

    Long coordinates are stored by `store`. UnsupportedError for bytes that are not text without it.
    """
    entries = attrs.get("coords")
    if not isinstance(entries, dict):
        return dict(attrs)
    changed = {key: each for key, each in entries.items() if isinstance(each, Coord)}
    listed = {key: each for key, each in entries.items() if store and isinstance(each, dict)}
    long = [key for key, each in listed.items() if len(json.dumps(each)) > _MAX_ENTRY_NBYTES]
    if long:
        with suppress(BloscpackError):  # labels of another form are copied as they are
            coords = Labels.unpack(attrs, shape).coords
            changed |= {key: coords[key] for key in long}
    try:
        packed = {key: _packed_coord(key, each, store) for key, each in changed.items()}
    except TypeError as err:
        raise UnsupportedError(err.args[0]) from err
    return {**attrs, "coords": entries | packed}


def grown_entry(
    name: str, coord: Coord, values: AnyArray, axis: int, store: Store | None
) -> dict[str, Any]:
    """Return the entry of a coordinate in the attrs after `values` were added along an axis."""
    even, size = coord.data, len(values)
    if (
        isinstance(even, Even)
        and (even.size + size) * even.dtype.itemsize <= _MAX_EVEN_NBYTES
        and is_same_items(even.items(even.size, even.size + size), values)
    ):
        return _packed_coord(name, coord, store)
    whole = np.concatenate([coord.values, values], axis)
    return _packed_coord(name, coord._replace(data=whole), store)


def _packed_coord(name: str, coord: Coord, store: Store | None) -> dict[str, Any]:
    """Return the entry of a coordinate in the attrs of an array."""
    dims, data, attrs = coord
    even = data if isinstance(data, Even) else Even.of(np.asarray(data))
    if even is not None:
        entry = {"dims": list(dims), "dtype": even.dtype.str, "data": even.pack()}
    elif store is None or (3 * data.size <= _MAX_ENTRY_NBYTES and is_ascii(data)):
        # Each item takes 3 bytes at least.
        entry = {"dims": list(dims), **_listed(f"coords[{name!r:.80}]", coord.values)}
    else:
        entry = {}
    if attrs:
        entry["attrs"] = as_json(f"coords[{name!r:.80}].attrs", dict(attrs))
    if (
        even is None
        and store
        and not ("data" in entry and len(json.dumps(entry)) <= _MAX_ENTRY_NBYTES)
    ):
        array = store(name, coord)
        return _packed_coord(name, coord, None) if array is None else {"array": array}
    return entry


def _listed(what: str, values: AnyArray) -> dict[str, Any]:
    """Return the values of a coordinate as a list, and their dtype unless they are text."""
    kind, dtype = values.dtype.kind, {"dtype": values.dtype.str}
    if kind == "O" and not all(isinstance(each, str) for each in values.ravel()):
        raise TypeError(
            f"{what} holds Python objects, which are not stored; convert it to numbers or text, or "
            "use x.reset_index() if it is a MultiIndex"
        )
    if kind in "OT":
        dtype = {}
    elif kind == "M":
        values = np.datetime_as_string(values)
    elif kind == "m":
        values = values.view("i8")
    elif kind == "S":
        if not is_ascii(values):
            raise TypeError(
                f"{what} has bytes that are not ASCII, which only an archive can hold: decode them "
                "to text, or save a Dataset"
            )
        values = np.char.decode(values, "ascii")
    elif kind == "c":
        values = values.astype(str)
    return {**dtype, "data": as_json(what, values.tolist())}


def is_ascii(values: Any) -> bool:
    """Return whether text of numpy can be a list of JSON: all but bytes that are not ASCII."""
    return bool(values.dtype.kind != "S" or np.asarray(values).tobytes().isascii())


def as_json(what: str, value: Any) -> Any:
    """Return a value after conversion to JSON and back."""
    return json.loads(encode_values(value, what))


def is_same_coord(one: Coord, two: Coord) -> bool:
    """Return whether coordinates are equal; times may have other units."""
    if one.dims != two.dims or not is_same_json(one.attrs, two.attrs):
        return False
    if isinstance(one.data, Even) and isinstance(two.data, Even) and one.data == two.data:
        return True
    return one.data is two.data or is_same_items(one.values, two.values)


def is_same_items(one: AnyArray, two: AnyArray) -> bool:
    """Return whether the items of coordinates are equal, and numbers of the same type and bits."""
    if one.dtype.kind in "mMSUO":
        return bool(np.array_equal(one, two, equal_nan=one.dtype.kind in "mM"))
    one, two = (each.astype(each.dtype.newbyteorder("=")) for each in (one, two))
    return (one.dtype, one.shape, one.tobytes()) == (two.dtype, two.shape, two.tobytes())


def is_same_json(one: Any, two: Any) -> bool:
    """Return whether JSON values are equal, and 1 is not 1.0."""
    return json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)


def as_text(values: AnyArray) -> AnyArray:
    """Return text of variable size in a type of fixed size; other values as they are."""
    if values.dtype.kind in "OT" and all(isinstance(each, str) for each in values.ravel()):
        found = np.array(values.tolist(), "U").reshape(values.shape)
        return found if is_equal(values, found) else values
    return values


def is_equal(one: AnyArray, other: AnyArray) -> bool:
    """Return whether values of coordinates are equal, also as text of another kind."""
    if one.shape != other.shape or (one.dtype.kind not in "OT" and one.dtype != other.dtype):
        return False
    if one.dtype.kind in "fcmM":
        return bool(np.array_equal(one, other, equal_nan=True))
    return bool(np.array_equal(one, other))
