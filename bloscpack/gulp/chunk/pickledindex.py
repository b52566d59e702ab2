"""Pickled indices, which GulpIO2 writes with its `pickle_serializer`.

A pickle is a program. Before it runs, its instructions are compared with the few that build plain
values, and simulated on sizes instead of values: how deeply each value is nested, and how many
values it has if every reference is followed. A small file therefore cannot become a value that
takes for ever to hash, compare or print. Only then is the value built. The pickle may name two
types: `OrderedDict`, and GulpIO2's `ImgInfo`.
"""

import io
import pickle
import pickletools
from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

import numpy as np

from ...plugin import FormatError
from .format import ImgInfo, check_meta_nbytes

# GulpIO2 writes protocol 4 on every Python from 3.8 on.
_PROTOCOL = 4

_TYPES: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("gulpio2.fileio", "ImgInfo"): ImgInfo,
    ("gulpio.fileio", "ImgInfo"): ImgInfo,
}
# An index is four levels deep; metadata may be nested further.
_MAX_DEPTH = 64
# Limit on values in an index, counted at every reference: a constant, and some for each byte.
_FREE_VALUES = 1 << 16
_VALUES_PER_BYTE = 16
# Longer integers take quadratic time to print; few of 8 bytes can share a hash in a set.
_MAX_INT_NBYTES = 128
_MAX_HASHED_INT_NBYTES = 8


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _TYPES[module, name]
        except KeyError:
            raise FormatError(
                f"the pickled index names {module}.{name}; only OrderedDict and ImgInfo are allowed"
            ) from None


def load_pickle(data: bytes) -> Any:
    """Load a pickled index.

    It may build only plain values, OrderedDicts and ImgInfos, and must not be nested too deeply or
    be too large with every reference followed.
    """
    check_meta_nbytes(len(data))
    _check_instructions(data)
    try:
        return _Unpickler(io.BytesIO(data)).load()
    except FormatError:
        raise
    except MemoryError:
        raise
    except Exception as err:  # invalid sequences of instructions raise nearly anything
        raise FormatError(f"the pickled index is damaged: {err}") from err


def _check_instructions(data: bytes) -> None:
    """Raise if a pickle builds anything but plain values of limited depth and size."""
    machine = _Machine(_FREE_VALUES + _VALUES_PER_BYTE * len(data))
    instructions = pickletools.genops(data)
    count = 0
    while True:
        try:
            opcode, argument, position = next(instructions)
        except StopIteration:
            return
        except ValueError as err:
            raise FormatError(f"the pickled index is damaged: {err}") from err
        name, count = opcode.name, count + 1
        # The argument is an index into a table that grows to it.
        if name == "LONG_BINPUT" and (argument is None or argument > count):
            raise FormatError("the pickled index is damaged: LONG_BINPUT", offset=position)
        try:
            machine.run(name, argument)
        except FormatError as err:
            err.offset = position
            raise
        except (IndexError, KeyError) as err:
            raise FormatError(f"the pickled index is damaged: {name}", offset=position) from err


class _Size:
    """Size of a value that a pickle builds.

    `depth` counts levels of containers; 0 if it is not a container. `count` is the number of values
    in it, plus itself; shared values count at every reference. `is_hashable`: it may be a key or a
    member of a set. `is_fixed`: it must not grow, as it cannot, or has been referred to.
    """

    __slots__ = ("count", "depth", "is_fixed", "is_hashable")

    def __init__(self, depth: int, count: int, *, is_fixed: bool = True) -> None:
        self.depth = depth
        self.count = count
        self.is_fixed = is_fixed
        self.is_hashable = False


_SCALAR: Final = _Size(0, 1)
_SCALAR.is_hashable = True
_LONG: Final = _Size(0, 1)
_TYPE: Final = _Size(0, 1)
_EMPTY_TUPLE: Final = _Size(1, 1)

# Instructions of protocols 2 to 5 for plain values. Left out: BUILD, which sets attributes; POP,
# which only self-containing values need; and all other ways of naming objects.
_PUSHED: Final = {
    "BINUNICODE": _SCALAR,
    "SHORT_BINUNICODE": _SCALAR,
    "BINUNICODE8": _SCALAR,
    "NONE": _SCALAR,
    "NEWTRUE": _SCALAR,
    "NEWFALSE": _SCALAR,
    "BININT": _SCALAR,
    "BININT1": _SCALAR,
    "BININT2": _SCALAR,
    "BINFLOAT": _SCALAR,
    "BINBYTES": _SCALAR,
    "SHORT_BINBYTES": _SCALAR,
    "BINBYTES8": _SCALAR,
    "GLOBAL": _TYPE,
    "EMPTY_TUPLE": _EMPTY_TUPLE,
}
_POPPED_BY_TUPLE: Final = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_MADE_OF_MARKED: Final = frozenset(("TUPLE", "LIST", "DICT", "FROZENSET"))
# Instructions that add to a container, with the number of values taken; 0: all above the mark.
_GROWN_BY: Final = {"APPEND": 1, "APPENDS": 0, "SETITEM": 2, "SETITEMS": 0, "ADDITEMS": 0}


class _Machine:
    """Simulates the instructions of a pickle on the sizes of values, at most `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._stack: list[_Size] = []
        self._marks: list[int] = []
        self._memo: dict[int, _Size] = {}

    def run(self, name: str, argument: Any) -> None:
        """Run an instruction; IndexError or KeyError if its operands are missing."""
        stack = self._stack
        if name in _PUSHED:
            stack.append(_PUSHED[name])
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = stack[-1]
        elif name in _POPPED_BY_TUPLE:
            self._make(self._pop(_POPPED_BY_TUPLE[name]))
        elif name in ("BINGET", "LONG_BINGET"):
            found = self._memo[argument]
            found.is_fixed = True
            stack.append(found)
        elif name in ("BINPUT", "LONG_BINPUT"):
            self._memo[argument] = stack[-1]
        elif name == "MARK":
            self._marks.append(len(stack))
        elif name in ("LONG1", "LONG4"):
            stack.append(_integer(argument))
        elif name == "STACK_GLOBAL":
            self._pop(2)
            stack.append(_TYPE)
        else:
            self._build(name)

    def _build(self, name: str) -> None:
        """Run an instruction that creates a container or adds values to one."""
        if name in ("EMPTY_LIST", "EMPTY_DICT", "EMPTY_SET"):
            self._make((), is_fixed=False)
        elif name in _MADE_OF_MARKED:
            self._make(
                _check_hashable(name, self._pop_marked()), is_fixed=name in ("TUPLE", "FROZENSET")
            )
        elif name in _GROWN_BY:
            popped = _GROWN_BY[name]
            self._grow(_check_hashable(name, self._pop(popped) if popped else self._pop_marked()))
        elif name == "NEWOBJ":
            self._make(self._pop(2), is_fixed=False)
        elif name == "REDUCE":
            # With arguments, an OrderedDict would take keys of any type from them.
            if self._pop(2)[1] is not _EMPTY_TUPLE:
                raise FormatError(
                    "the pickled index calls a type with arguments, which no index does"
                )
            self._make((), is_fixed=False)
        elif name not in ("PROTO", "FRAME", "STOP"):
            raise FormatError(f"the pickled index uses {name}, which no index does")

    def _pop(self, count: int) -> list[_Size]:
        if len(self._stack) < count:
            raise IndexError(count)
        taken = self._stack[-count:]
        del self._stack[-count:]
        return taken

    def _pop_marked(self) -> list[_Size]:
        mark = self._marks.pop()
        taken = self._stack[mark:]
        del self._stack[mark:]
        return taken

    def _make(self, values: Sequence[_Size], *, is_fixed: bool = True) -> None:
        made = _Size(1, 1)
        self._fill(made, values)
        made.is_fixed = is_fixed
        self._stack.append(made)

    def _grow(self, values: Sequence[_Size]) -> None:
        """Add values to the container on top of the stack."""
        into = self._stack[-1]
        if into.is_fixed:
            raise FormatError("the pickled index changes a value after referring to it again")
        self._fill(into, values)

    def _fill(self, into: _Size, values: Sequence[_Size]) -> None:
        depth, count = into.depth, into.count
        for value in values:
            count += value.count
            if value.depth >= depth:
                depth = value.depth + 1
        into.depth, into.count = depth, count
        if depth > _MAX_DEPTH:
            raise FormatError(
                f"the pickled index nests values deeper than {_MAX_DEPTH} levels, which no index "
                "does"
            )
        if count > self._most:
            raise FormatError(
                f"the pickled index refers to the same values over and over: in full it has more "
                f"than {self._most} values"
            )


def _integer(value: int) -> _Size:
    if value.bit_length() >= 8 * _MAX_INT_NBYTES:
        raise FormatError(
            f"the pickled index has an integer of {value.bit_length()} bits, which no index does"
        )
    return _SCALAR if value.bit_length() < 8 * _MAX_HASHED_INT_NBYTES else _LONG


def _check_hashable(name: str, values: Sequence[_Size]) -> Sequence[_Size]:
    """Return the values of a container; keys and members of sets must be text or small numbers."""
    if name in ("DICT", "SETITEM", "SETITEMS"):
        if not all(key.is_hashable for key in islice(values, 0, None, 2)):
            raise FormatError("the pickled index has a key other than text and numbers of 64 bits")
    elif name in ("FROZENSET", "ADDITEMS") and not all(value.is_hashable for value in values):
        raise FormatError(
            "the pickled index has a set of other things than text and numbers of 64 bits"
        )
    return values


def dump_pickle(thing: Any) -> bytes:
    """Pickle an index so that GulpIO2 and `load_pickle` can read it; TypeError for other values."""
    data = pickle.dumps(_to_plain(thing), protocol=_PROTOCOL)
    try:
        load_pickle(data)
    except FormatError as err:
        raise TypeError(f"{err}; an index holds plain values") from err
    return data


def _to_plain(thing: Any) -> Any:
    """Return `thing` without numpy, and with tuples for ImgInfos, whose module GulpIO2 lacks."""
    if isinstance(thing, ImgInfo):
        return tuple(thing)
    if isinstance(thing, OrderedDict):
        return OrderedDict((key, _to_plain(value)) for key, value in thing.items())
    if isinstance(thing, dict):
        return {key: _to_plain(value) for key, value in thing.items()}
    if isinstance(thing, list):
        return [_to_plain(value) for value in thing]
    if isinstance(thing, np.generic | np.ndarray):
        return thing.tolist()
    return thing
