"""Variables of xarray as they are stored: with the encoding that they have from netCDF or Zarr.

xarray encodes them by the CF conventions, as `to_netcdf` does. Here the items are decoded again and
compared, so that no change is silent: to a number that the packed type does not have, to the fill
value, or to a unit of time that is too long.
"""

import warnings
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from xarray.coding.strings import CharacterArrayCoder, EncodedStringCoder
from xarray.core.common import contains_cftime_datetimes

from ..notice import notice
from ..types import AnyArray
from .arraylike import as_array, is_dask_array
from .axislabels import DECODED, OF_SCALING, Coord, is_decoded_by, types_of

_OF_VALUES = {"dtype", "scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned"}
_OF_TIMES = {"units", "calendar"}
_OF_CHARACTERS = {"_Encoding", "char_dim_name"}
# Names of other variables, which xarray moves to the encoding with ``decode_coords="all"``.
_RELATED = {*xr.conventions.CF_RELATED_DATA}
# Times that are fractions of a unit differ in their last digits.
_NEAR = np.timedelta64(1, "us")
_ADVICE = "change x.encoding, or save x.drop_encoding()"


class StoredVariable(NamedTuple):
    """Variable as it is stored: names of axes, items, and attrs."""

    dims: tuple[Any, ...]
    data: Any
    attrs: dict[Any, Any]


def stored_variable(
    name: Hashable, variable: xr.Variable, *, is_coord: bool = False
) -> StoredVariable:
    """Return a variable as its encoding says that it is stored.

    A coordinate has no axis for the characters of text.

    Raises
    ------
    ValueError
        The encoding does not suit the variable, or items would not be read back.
    """
    if "enum" in (getattr(variable.encoding.get("dtype"), "metadata", None) or ()):
        notice("the labels of the enum of %.80r are left out", name)
    if str(variable.dtype) == "category":
        raise TypeError(f"{name!r:.80} has categories, which are not stored: use x.astype(str)")
    is_characters = str(variable.encoding.get("dtype")).strip("|") == "S1" and not is_coord
    own: dict[str, Any] = {}
    if variable.dtype.kind in "OT":
        variable, own = _of_one_type(variable)
    if own and is_decoded_by(variable.attrs):
        raise ValueError(
            f"{name!r:.80} has missing text, which its attrs {[*variable.attrs]!r:.80} do not let "
            "xarray find: drop the attrs by which it decodes items"
        )
    if is_characters and not own and variable.dtype.kind in "US":
        found = {k: v for k, v in variable.encoding.items() if k in _OF_CHARACTERS}
        text = xr.Variable(variable.dims, variable.values, variable.attrs, found | {"dtype": "S1"})
        text = CharacterArrayCoder().encode(EncodedStringCoder().encode(text))
        return StoredVariable(text.dims, text.data, text.attrs)
    encoding = _wanted(variable)
    if encoding or _is_calendar(variable):
        return _encoded(name, variable, encoding)
    attrs = dict(variable.attrs)
    if is_decoded_by(attrs) or variable.dtype == "S1":
        attrs[DECODED] = True
    return StoredVariable(variable.dims, variable.data, attrs | own)


def stored_coords(value: Any, names: Iterable[Hashable]) -> dict[Any, Coord]:
    """Return coordinates of a DataArray or Dataset as they are stored; see `stored_variable`."""
    found = {n: stored_variable(n, value.coords[n].variable, is_coord=True) for n in names}
    return {
        name: Coord(dims, np.asarray(as_array(data)), attrs)
        for name, (dims, data, attrs) in found.items()
    }


def _of_one_type(variable: xr.Variable) -> tuple[xr.Variable, dict[str, Any]]:
    """Return objects that are text, bytes or floats in a type of numpy; others as they are.

    Missing text becomes a fill value that no other item has, which is in the attrs returned.
    """
    values, is_missing = np.asarray(variable.values, object), variable.isnull().values
    found = values[~is_missing].tolist()
    kinds = {type(each) for each in found}
    encoding = variable.encoding
    fill_type = type(encoding.get("_FillValue"))
    is_text = not found and fill_type in (str, bytes)
    if kinds == {float} or (not found and values.size and not is_text):
        return xr.Variable(variable.dims, values.astype(float), variable.attrs, encoding), {}
    text = np.array(found, None if found else fill_type if is_text else str)
    if len(kinds) > 1 or not kinds <= {str, bytes} or text.tolist() != found:
        return variable, {}  # text that ends with null characters, too, which numpy drops
    own = {}
    if is_missing.any():
        marks = ("-" * count for count in range(len(found) + 1))
        fill = next(each for each in marks if each not in found and each.encode() not in found)
        own, text = {"_FillValue": fill}, np.append(text, np.array(fill, text.dtype.kind))
        if text.dtype == "S1":  # characters, of which xarray takes none for missing
            text = text.astype("S2")
    filled = np.full(values.shape, text[-1] if text.size else "", text.dtype)
    filled[~is_missing] = found
    return xr.Variable(variable.dims, filled, variable.attrs, encoding), own


def _is_calendar(variable: xr.Variable) -> bool:
    """Return whether the items are times of a calendar that numpy does not have."""
    return variable.dtype.kind == "O" and bool(contains_cftime_datetimes(variable))


def _wanted(variable: xr.Variable) -> dict[str, Any]:
    """Return the encoding that changes the items or the attrs of a variable."""
    kind = variable.dtype.kind
    keys = _RELATED | (_OF_VALUES if kind not in "US" else set())
    keys |= _OF_TIMES if kind in "mM" or _is_calendar(variable) else set()
    found = {k: v for k, v in variable.encoding.items() if k in keys and v is not None}
    dtype = found.pop("dtype", None)
    if dtype is not None and dtype is not str and kind not in "US":
        dtype = np.dtype(dtype).newbyteorder("=")
        if dtype.kind in "biufc" and dtype != variable.dtype:
            found["dtype"] = dtype
    return found


def _encoded(name: Hashable, variable: xr.Variable, encoding: dict[str, Any]) -> StoredVariable:
    dims, data, attrs = variable.dims, variable.data, dict(variable.attrs)
    if both := attrs.keys() & _OF_VALUES - {"dtype"}:
        raise ValueError(f"{name!r:.80} has the attrs {sorted(both)} and an encoding: {_ADVICE}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it chooses a shorter unit of time
        items, found = _encoded_and_checked(name, data, attrs, encoding, _ADVICE)
    if data.dtype.kind == "m" and "timedelta64" not in str(found.get("dtype")):
        return StoredVariable(dims, data, attrs)  # by older versions of xarray
    if is_dask_array(items):
        times = {key: found[key] for key in _OF_TIMES & found.keys()}
        exact = {**encoding, **times, "dtype": items.dtype}
        items = encoded_items(name, data, exact, _ADVICE, rounds=True)
    return StoredVariable(dims, items, found | types_of(found, items.dtype))


def encoded_items(
    name: Hashable, data: Any, encoding: Mapping[str, Any], advice: str, *, rounds: bool = False
) -> Any:
    """Return items by exactly this encoding, with its type and unit; those of Dask by blocks.

    With `rounds`, floats may become the next integers if the encoding has no scale.

    Raises
    ------
    ValueError
        Items would not be read back, or for Dask when they are computed; `advice` ends the message.
    """
    if is_dask_array(data):
        meta = np.empty((0,) * data.ndim, encoding["dtype"])
        return data.map_blocks(
            lambda block: encoded_items(name, block, encoding, advice, rounds=rounds),
            dtype=meta.dtype,
            meta=meta,
        )
    return _encoded_and_checked(name, data, {}, encoding, advice, is_exact=True, rounds=rounds)[0]


def _encoded_and_checked(
    name: Hashable,
    data: Any,
    attrs: dict[Any, Any],
    encoding: Mapping[str, Any],
    advice: str,
    *,
    is_exact: bool = False,
    rounds: bool = True,
) -> tuple[Any, dict[Any, Any]]:
    """Return items and attrs as xarray encodes them, after a look that it decodes the same items.

    Those of Dask are not looked at.
    """
    # xarray warns of numbers that lack a fill value, unless they are a coordinate.
    item, dtype = "item", encoding.get("dtype")
    try:
        with np.errstate(all="ignore"):
            given = xr.Variable((item,), data.reshape(-1), attrs, dict(encoding))
            found = xr.conventions.encode_cf_variable(given, name=item)
            items, attrs = found.data.reshape(data.shape), found.attrs
            if "_FillValue" not in encoding:  # xarray gives floats one
                attrs.pop("_FillValue", None)
            if data.dtype == bool and dtype in (None, bool):  # which it encodes as integers
                items = data
                attrs.pop("dtype", None)
            if not is_dask_array(data):
                # It may have chosen a shorter unit.
                units = {key: encoding[key] for key in _OF_TIMES & encoding.keys() if is_exact}
                again = xr.Variable((item,), items.reshape(-1), attrs | units)
                after = xr.conventions.decode_cf_variable(item, again)
                step = np.abs(encoding.get("scale_factor", int(rounds)))
                _check(again.values, given.values, after.values, encoding, step)
    except (ArithmeticError, AttributeError, TypeError, ValueError) as err:  # without cftime
        listed = ", ".join(f"{key}={value!s:.40}" for key, value in encoding.items())
        raise ValueError(
            f"{name!r:.80} is not read back with the encoding ({listed}): {err!s:.200}; {advice}"
        ) from err
    return items, attrs


def _check(
    items: AnyArray, before: AnyArray, after: AnyArray, encoding: Mapping[str, Any], step: Any
) -> None:
    """Raise ValueError if items before encoding them differ from those after decoding them.

    Numbers that are stored as integers may differ by half a step.
    """
    kinds = {before.dtype.kind, after.dtype.kind}
    are_times, are_objects = kinds <= {*"mM"}, kinds <= {*"OSTU"}
    if not (are_times or are_objects) and kinds & {*"mMOSTU"}:
        raise ValueError(f"{before.dtype} becomes {after.dtype}")
    # What is not equal to itself is missing.
    is_other = (before != after) & ((before == before) | (after == after))
    is_exact = before.dtype.kind in "biu" and not encoding.keys() & OF_SCALING
    if is_exact:  # a float may be equal to integers that it does not have
        is_other |= before != after.astype(before.dtype)
    if not is_other.any():
        return
    one, two = before[is_other], after[is_other]
    if is_exact or ((are_times or are_objects) and items.dtype.kind != "f"):
        is_kept = np.zeros(one.shape, bool)
    elif are_times or are_objects:
        is_kept = np.abs(one - two) <= _NEAR
    else:
        types = [each.dtype for each in (items, one, two) if each.dtype.kind in "fc"]
        limits = max(map(np.finfo, types), key=lambda each: each.eps)
        step = step if items.dtype.kind in "iu" else 0
        size = np.abs(one) + np.abs(encoding.get("add_offset", 0))
        error = np.abs(one - two)
        is_kept = (error <= step / 2 + 4 * float(limits.eps) * size + limits.tiny) & np.isfinite(
            error
        )
    if not np.all(is_kept):
        lost = int(np.argmin(is_kept))
        raise ValueError(f"{one[lost]} becomes {two[lost]}")
