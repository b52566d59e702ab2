"""Dtypes as text: reading and writing the ``dtype`` entry of the array metadata.

The text is that of bloscpack 0.16: ``repr(dtype.str)``, or ``repr(dtype.descr)`` for a structured
dtype. Releases 0.4.0 to 0.7.1 wrote it unquoted, and 0.4.0 always as a list. Dtypes that this text
cannot express (bfloat16, overlapping or reordered fields) have a second entry, ``logical_dtype``;
``dtype`` is then raw bytes of the same size, which the original can read.

Text from a file is never evaluated: only literals are parsed, each scalar type must match a
pattern, and object dtypes are refused.
"""

import ast
import importlib
import re
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ..exceptions import FormatError, ObjectNumpyArrayRejection
from ..types import AnyArray

Dtype = np.dtype[Any]

_SCALAR = re.compile(
    r"[<>|=]?(?:[?]|b1|[iu][1248]|f(?:2|4|8|12|16)|c(?:8|16|24|32)|[SUVa][0-9]{0,10}"
    # Divided units like [D/24] are excluded: numpy writes them as multiples, and some zero
    # divisors crash it.
    r"|[mM]8(?:\[(?:[1-9][0-9]{0,8})?(?:Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?)"
)

# The types of ml_dtypes that a file may name; importing that package defines them.
EXTENSION_TYPES = frozenset(
    (
        "bfloat16",
        "float8_e3m4",
        "float8_e4m3",
        "float8_e4m3b11fnuz",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
        "float6_e2m3fn",
        "float6_e3m2fn",
        "float4_e2m1fn",
        "int1",
        "int2",
        "int4",
        "uint1",
        "uint2",
        "uint4",
    )
)

# numpy stores the item size in a C int; numpy 1.26 reduces larger numbers modulo 2^32.
_MAX_ITEMSIZE = 2**31 - 1
_CHARACTER_NBYTES = {"S": 1, "a": 1, "V": 1, "U": 4}

# Limits on the length and nesting of a dtype's text; numpy itself refuses far smaller ones.
_MAX_TEXT = 1 << 16
_MAX_DEPTH = 32
_MAX_REMEMBERED_TEXT = 1 << 10
_U64_NBYTES = 8  # integers of this size may be too precise for a float


@lru_cache(maxsize=256)
def pack_dtype(dtype: Dtype) -> tuple[str, Any]:
    """Return (``dtype`` text, ``logical_dtype`` value or None) for the metadata.

    ObjectNumpyArrayRejection if `dtype` contains Python objects or variable-size strings.
    """
    if dtype.hasobject or dtype.kind == "T":
        what, advice = "Python objects, which are", "convert it to a fixed-size type first"
        if dtype.kind == "T":
            what, advice = "text of variable size, which is", "use x.astype(str)"
        raise ObjectNumpyArrayRejection(f"dtype {dtype} contains {what} not stored; {advice}")
    try:
        text = repr(dtype.descr if dtype.names is not None else dtype.str)
        if unpack_dtype(text) == dtype:
            return text, None
    except ValueError:  # fields that overlap or are out of order have no `descr`
        pass
    if _SCALAR.fullmatch(dtype.str) and dtype.names is None:
        return repr(dtype.str), _pack_logical(dtype)
    return repr(f"|V{dtype.itemsize}"), _pack_logical(dtype)


def pack_scalar(dtype: Dtype) -> str:
    """Return the name of a dtype without fields or shape: ``dtype.str``, or its ml_dtypes name."""
    is_plain = dtype.names is None and dtype.subdtype is None and not dtype.hasobject
    if not is_plain or not dtype.itemsize or dtype.kind == "T":
        raise TypeError(
            f"dtype {dtype}: expected a plain dtype of at least one byte, without fields, "
            "shape or Python objects"
        )
    logical = pack_dtype(dtype)[1]
    return logical if isinstance(logical, str) else dtype.str


def unpack_scalar(name: str) -> Dtype:
    """Return the dtype for a name written by `pack_scalar`; errors as for `unpack_dtype`."""
    dtype = _extension_type(name) if name in EXTENSION_TYPES else _scalar(name)
    if not dtype.itemsize:
        raise FormatError(f"dtype: {name!r} has zero bytes", field="dtype")
    return dtype


def cast_exactly(items: AnyArray, dtype: Dtype) -> AnyArray | None:
    """Return `items` as `dtype`; None unless all values and the names of fields stay equal."""
    if not np.can_cast(items.dtype, dtype, "safe") or _names(items.dtype) != _names(dtype):
        return None
    with np.errstate(all="ignore"):
        # numpy calls these casts safe, although large integers are rounded, and late dates wrap or,
        # from NumPy 2.5 on, are refused.
        try:
            cast: AnyArray = items.astype(dtype)
        except OverflowError:
            return None
        if items.dtype.kind in "mM":
            return cast if is_unchanged(cast, items) else None
        if items.dtype.kind in "iu" and items.dtype.itemsize == _U64_NBYTES and dtype.kind in "fc":
            real = cast.real
            most = float(np.iinfo(items.dtype).max)  # rounded up, to a value that wraps
            if not ((real < most).all() and np.array_equal(real.astype(items.dtype), items)):
                return None
    return cast


def metadata_of(dtype: Dtype) -> dict[str, Any]:
    """Return the metadata that h5py and others have put into a dtype or its fields."""
    found = dict(dtype.metadata or {})
    for each, *_ in (dtype.fields or {}).values():
        found |= metadata_of(each)
    return found


def cast_rows(rows: AnyArray, dtype: Dtype, *, is_array: bool) -> AnyArray:
    """Return rows as `dtype`; raises TypeError if they would change.

    Without `is_array` they are Python numbers, for which numpy chose a type: floats may be rounded.
    """
    cast = cast_exactly(rows, dtype)
    if cast is None and not is_array and rows.dtype.kind in "biufc" and dtype.kind in "biufc":
        with np.errstate(all="ignore"):
            cast = rows.astype(dtype)
        cast = cast if is_rounded(cast, rows) else None
    if cast is None:
        raise TypeError(
            f"rows are {rows.dtype}, which cannot be cast to {dtype} without loss; "
            "convert them with astype"
        )
    return cast


def is_rounded(cast: AnyArray, items: AnyArray) -> bool:
    """Return whether a cast has the values of items; those of floats may be rounded."""
    if items.dtype.kind in "fc" and np.can_cast(items.dtype, cast.dtype, "same_kind"):
        return np.array_equal(np.isfinite(cast), np.isfinite(items))
    return is_unchanged(cast, items)


def is_unchanged(cast: AnyArray, items: AnyArray) -> bool:
    """Return whether a cast of items has their values; NaT equals NaT."""
    if {items.dtype.kind, cast.dtype.kind} == {"i", "u"} and ((cast < 0) != (items < 0)).any():
        return False  # an integer of 64 bits that wraps is cast back to itself
    back = cast if items.dtype.kind == "c" or cast.dtype.kind != "c" else cast.real
    return np.array_equal(back.astype(items.dtype), items, equal_nan=items.dtype.kind in "mM")


def _names(dtype: Dtype) -> Any:
    """Return the names of the fields, and of their fields; numpy casts fields by position."""
    base = dtype.base
    return base.names and [(name, _names(base[name])) for name in base.names]


def _unpack_text(text: str) -> Dtype:
    if len(text) > _MAX_TEXT:
        raise FormatError(
            f"dtype: text of {len(text)} characters exceeds {_MAX_TEXT}", field="dtype"
        )
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        value = text  # releases 0.4.1 to 0.7.1: the type string itself, unquoted
    return _from_description(value, _MAX_DEPTH)


_remember_text = lru_cache(maxsize=256)(_unpack_text)


def unpack_dtype(described: Any, logical: Any = None) -> Dtype:
    """Return the dtype for the values of ``dtype`` and ``logical_dtype``.

    Raises
    ------
    FormatError
        The values do not describe a dtype.
    ObjectNumpyArrayRejection
        The dtype contains Python objects.
    ImportError
        The dtype needs ml_dtypes, which is not installed.
    """
    if isinstance(described, str):
        short = len(described) <= _MAX_REMEMBERED_TEXT
        dtype = _remember_text(described) if short else _unpack_text(described)
    else:
        dtype = _from_description(described, _MAX_DEPTH)
    if logical is None:
        return dtype
    result = _unpack_logical(logical, _MAX_DEPTH)
    if result.subdtype is not None:
        raise FormatError(
            "logical_dtype: a sub-array cannot be the item type", field="logical_dtype"
        )
    if result.itemsize != dtype.itemsize:
        raise FormatError(
            f"logical_dtype: {result.itemsize} bytes, but dtype has {dtype.itemsize}",
            field="logical_dtype",
        )
    return result


def _from_description(value: Any, depth: int) -> Dtype:
    if isinstance(value, str):
        return _scalar(value)
    if not isinstance(value, list) or depth == 0:
        raise FormatError(
            f"dtype: expected text or a list of fields, not {type(value).__name__!r}",
            field="dtype",
        )
    fields = [_field(entry, depth) for entry in value]
    if len(fields) == 1 and fields[0][0] == "" and fields[0][1] is None:
        return fields[0][2]  # release 0.4.0: a plain dtype as a list of one unnamed field
    names, titles, formats, offsets = [], [], [], []
    itemsize = 0
    for position, (name, title, dtype) in enumerate(fields):
        # dtype.descr lists the padding of aligned structs as unnamed void fields.
        if name or dtype.kind != "V" or dtype.names is not None:
            names.append(name or f"f{position}")
            titles.append(title)
            formats.append(dtype)
            offsets.append(itemsize)
        itemsize += dtype.itemsize
    return _structured(names, titles, formats, offsets, itemsize)


def _field(entry: Any, depth: int) -> tuple[str, str | None, Dtype]:
    """Return (name, title, dtype) of one entry of a ``descr`` list."""
    if not isinstance(entry, tuple | list) or len(entry) not in (2, 3):
        raise FormatError(f"dtype: field {str(entry)[:80]!r} is not (name, type)", field="dtype")
    name, title = entry[0], None
    if isinstance(name, tuple | list) and len(name) == 2:
        title, name = name
    if not isinstance(name, str) or not (title is None or isinstance(title, str)):
        raise FormatError(f"dtype: field name {str(name)[:80]!r} is not text", field="dtype")
    dtype = _from_description(entry[1], depth - 1)
    return name, title, _subarray(dtype, entry[2]) if len(entry) == 3 else dtype


def _scalar(text: str) -> Dtype:
    bare = text.lstrip("<>|=")
    if bare[:1] == "O":
        raise ObjectNumpyArrayRejection("dtype: Python objects are not read from files")
    if not _SCALAR.fullmatch(text):
        raise FormatError(f"dtype: {text[:80]!r} is not a scalar type", field="dtype")
    kind, digits = bare[0], bare[1:]
    if kind in _CHARACTER_NBYTES and digits:
        _check_itemsize(int(digits) * _CHARACTER_NBYTES[kind], text)
    try:
        return np.dtype(text.replace("a", "S") if kind == "a" else text)
    except (TypeError, ValueError, OverflowError) as err:
        raise FormatError(f"dtype: {text[:80]!r}: {err}", field="dtype") from err


def _check_itemsize(nbytes: int, what: str) -> None:
    if nbytes > _MAX_ITEMSIZE:
        raise FormatError(
            f"dtype: {what[:80]!r} has {nbytes} bytes; an item has at most {_MAX_ITEMSIZE}",
            field="dtype",
        )


def _subarray(dtype: Dtype, shape: Any) -> Dtype:
    lengths = (shape,) if isinstance(shape, int) else shape
    if not isinstance(lengths, tuple | list) or not all(
        isinstance(length, int) and length >= 0 for length in lengths
    ):
        raise FormatError(f"dtype: {str(shape)[:80]!r} is not a shape", field="dtype")
    _check_itemsize(prod(lengths) * dtype.itemsize, f"sub-array {tuple(lengths)} of {dtype}")
    try:
        return np.dtype((dtype, tuple(lengths)))
    except (TypeError, ValueError, OverflowError) as err:
        raise FormatError(f"dtype: sub-array: {err}", field="dtype") from err


def _structured(
    names: list[str],
    titles: list[str | None],
    formats: list[Dtype],
    offsets: list[int],
    itemsize: int,
) -> Dtype:
    for number in (*offsets, itemsize):
        if not isinstance(number, int) or number < 0:
            raise FormatError(f"dtype: offset {number!r:.80} is not a number", field="dtype")
    ends = (start + each.itemsize for start, each in zip(offsets, formats, strict=True))
    _check_itemsize(max((itemsize, *ends)), f"fields {names}")
    spec: dict[str, Any] = {
        "names": names,
        "formats": formats,
        "offsets": offsets,
        "itemsize": itemsize,
    }
    if any(title is not None for title in titles):
        spec["titles"] = titles
    try:
        return np.dtype(spec)  # type: ignore[call-overload,no-any-return]
    except (TypeError, ValueError, OverflowError) as err:
        raise FormatError(f"dtype: {err}", field="dtype") from err


def _pack_logical(dtype: Dtype) -> Any:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return {"base": _pack_logical(base), "shape": list(shape)}
    if dtype.names is not None and dtype.fields is not None:
        fields = [dtype.fields[name] for name in dtype.names]
        return {
            "names": list(dtype.names),
            "titles": [field[2] if len(field) > 2 else None for field in fields],
            "formats": [_pack_logical(field[0]) for field in fields],
            "offsets": [field[1] for field in fields],
            "itemsize": dtype.itemsize,
        }
    return dtype.name if dtype.name in EXTENSION_TYPES else dtype.str


def _unpack_logical(value: Any, depth: int) -> Dtype:
    if isinstance(value, str):
        return _extension_type(value) if value in EXTENSION_TYPES else _scalar(value)
    if depth == 0 or not isinstance(value, dict):
        raise FormatError(
            f"logical_dtype: {str(value)[:80]!r} does not describe a dtype", field="logical_dtype"
        )
    if "base" in value:
        return _subarray(_unpack_logical(value["base"], depth - 1), value.get("shape"))
    lists = [value.get(key) for key in ("names", "titles", "formats", "offsets")]
    itemsize = value.get("itemsize")
    if not isinstance(itemsize, int) or not all(
        isinstance(entry, list) and len(entry) == len(lists[0] or []) for entry in lists
    ):
        raise FormatError(
            "logical_dtype: names, titles, formats and offsets must be lists of the same length",
            field="logical_dtype",
        )
    names, titles, formats, offsets = lists
    return _structured(
        names or [],
        titles or [],
        [_unpack_logical(entry, depth - 1) for entry in formats or []],
        offsets or [],
        itemsize,
    )


def _extension_type(name: str) -> Dtype:
    try:
        module = importlib.import_module("ml_dtypes")
    except ImportError as err:
        raise ImportError(
            f"the array has dtype {name}: pip install ml_dtypes (or bloscpack[ml_dtypes])"
        ) from err
    if not hasattr(module, name):
        raise ImportError(f"the array has dtype {name}, which needs a newer ml_dtypes")
    dtype: Dtype = np.dtype(getattr(module, name))
    return dtype
