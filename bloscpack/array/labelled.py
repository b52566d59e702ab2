"""Arrays and datasets of other libraries, whose labels and attrs become attrs of a file."""

from collections.abc import Mapping
from typing import Any

from ..notice import notice
from ..parallel.imports import importing
from .arraylike import is_data_array, is_dataset
from .axislabels import DECODED, OURS, UNLIMITED, Store, as_json, pack_labels

# Values of a coordinate that are more than 1 MiB of attrs.
_MANY_VALUES = 50_000


def unlabelled(value: Any, store: Store | None = None) -> tuple[Any, dict[str, Any]]:
    """Return the array of a DataArray, or another value, and JSON values of its labels and attrs.

    Attrs of other values that are not JSON values, such as references of HDF5, are left out with a
    notice. `store` is for long coordinates.

    Raises
    ------
    TypeError
        A label cannot be stored as JSON.
    """
    if is_data_array(value):
        if taken := sorted(value.attrs.keys() & OURS):
            raise TypeError(
                f"attrs has an entry {taken[0]!r}, a name reserved for the labels of the array; "
                "rename the entry"
            )
        with importing:  # on use: it imports xarray
            from .cfencoding import stored_coords, stored_variable

        dims, data, attrs = stored_variable(value.name, value.variable)
        coords = stored_coords(value, value.coords)
        packed = pack_labels(value.name, dims, data.shape, coords, attrs, store)
        for key, coord in coords.items():
            is_list = isinstance(packed["coords"][key].get("data"), list)
            if store is None and is_list and coord.data.size > _MANY_VALUES:
                notice(
                    "the %d values of coordinate %.80r are text in the attrs, which each opening "
                    "reads; save x.to_dataset(name=...), whose coordinates are arrays",
                    coord.data.size,
                    key,
                )
        return data, packed
    if is_dataset(value):
        attrs = dict(as_json("attrs", dict(value.attrs)))
        if UNLIMITED in attrs:
            raise TypeError(f"attrs has an entry {UNLIMITED!r}, a reserved name; rename the entry")
        if unlimited := {*value.encoding.get("unlimited_dims", ())} & {*value.dims}:
            attrs[UNLIMITED] = sorted(unlimited)
        return value, attrs | {DECODED: True} if "coordinates" in attrs else attrs
    return value, _attrs_of(value)


def _attrs_of(value: Any) -> dict[str, Any]:
    """Return the attrs of an array of h5py or Zarr, with the names of its axes."""
    attrs: dict[str, Any] = {}
    names = getattr(getattr(value, "metadata", None), "dimension_names", None)  # of Zarr
    if names and all(isinstance(each, str) for each in names):
        attrs["dims"] = [*names]
    elif any(names or ()):
        notice("the names %.80r of some axes are left out", names)
    found = getattr(value, "attrs", None)
    for name, each in found.items() if isinstance(found, Mapping) else ():
        try:
            attrs |= as_json("attrs", {name: each})
        except (TypeError, ValueError) as err:
            notice("attribute %.80r is left out: %s", name, err)
    return attrs
