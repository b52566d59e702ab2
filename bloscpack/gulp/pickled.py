"""Indices as pickles, which GulpIO2 writes with its `pickle_serializer`.

A pickle is a program. Before it is run, its instructions are compared with the few that build plain
values; then two types may be named in it: `OrderedDict`, and GulpIO2's `ImgInfo`.
"""

import io
import pickle
import pickletools
from collections import OrderedDict
from typing import Any

import numpy as np

from ..exceptions import FormatError
from .format import ImgInfo, check_meta_nbytes

# Protocol 4 is what GulpIO2 writes on every Python from 3.8 on.
_PROTOCOL = 4

_TYPES: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("gulpio2.fileio", "ImgInfo"): ImgInfo,
    ("gulpio.fileio", "ImgInfo"): ImgInfo,
}
# What protocols 2 to 5 use for plain values. Not among them: BUILD, which sets attributes, and all
# that names objects in other ways.
_INSTRUCTIONS = frozenset(
    """
    PROTO FRAME STOP MARK POP POP_MARK MEMOIZE BINPUT LONG_BINPUT BINGET LONG_BINGET
    NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 LONG4 BINFLOAT
    BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8
    EMPTY_LIST APPEND APPENDS LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3
    EMPTY_DICT DICT SETITEM SETITEMS EMPTY_SET ADDITEMS FROZENSET
    GLOBAL STACK_GLOBAL REDUCE NEWOBJ
    """.split()  # noqa: SIM905 - read as a table
)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _TYPES[module, name]
        except KeyError:
            raise FormatError(
                f"the pickled index names {module}.{name}; only OrderedDict and ImgInfo are made"
            ) from None


def load_pickle(data: bytes) -> Any:
    """Return the value in a pickled index.

    Raises
    ------
    FormatError
        It is damaged, or builds anything but plain values, OrderedDicts and ImgInfos.
    UnsupportedError
        It is larger than any index.
    """
    check_meta_nbytes(len(data))
    _check_instructions(data)
    try:
        return _Unpickler(io.BytesIO(data)).load()
    except FormatError:
        raise
    except MemoryError:
        raise
    except Exception as err:  # a wrong order of instructions raises nearly anything
        raise FormatError(f"the pickled index is damaged: {err}") from err


def _check_instructions(data: bytes) -> None:
    instructions = enumerate(pickletools.genops(data), 1)
    while True:
        try:
            count, (opcode, argument, position) = next(instructions)
        except StopIteration:
            return
        except ValueError as err:
            raise FormatError(f"the pickled index is damaged: {err}") from err
        if opcode.name not in _INSTRUCTIONS:
            raise FormatError(
                f"the pickled index uses {opcode.name}, which no index does", offset=position
            )
        # The place in a table that is made as large as it takes.
        if opcode.name == "LONG_BINPUT" and (argument is None or argument > count):
            raise FormatError("the pickled index is damaged: LONG_BINPUT", offset=position)


def dump_pickle(thing: Any) -> bytes:
    """Return an index as a pickle that GulpIO2 and `load_pickle` read.

    Raises
    ------
    TypeError
        It holds what `load_pickle` refuses.
    """
    data = pickle.dumps(_plain(thing), protocol=_PROTOCOL)
    try:
        load_pickle(data)
    except FormatError as err:
        raise TypeError(f"{err}; an index holds plain values") from err
    return data


def _plain(thing: Any) -> Any:
    """Return `thing` with tuples for ImgInfos, whose module GulpIO2 does not know, and no numpy."""
    if isinstance(thing, ImgInfo):
        return tuple(thing)
    if isinstance(thing, OrderedDict):
        return OrderedDict((key, _plain(value)) for key, value in thing.items())
    if isinstance(thing, dict):
        return {key: _plain(value) for key, value in thing.items()}
    if isinstance(thing, list):
        return [_plain(value) for value in thing]
    if isinstance(thing, np.generic | np.ndarray):
        return thing.tolist()
    return thing
