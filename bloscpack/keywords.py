"""Checks of arguments: keywords of other libraries explained, sizes as text, lists of names."""

import operator
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, ParamSpec, TypeVar, get_args, get_type_hints

P = ParamSpec("P")
R = TypeVar("R")

# Keywords of h5py, zarr, blosc2, numpy, joblib and torch, and those that we have instead.
_KEYWORDS = {
    **dict.fromkeys(("compression", "compressor", "compressors", "cname"), "codec='zstd'"),
    **dict.fromkeys(
        ("compression_opts", "compression_level", "compresslevel", "complevel", "level"), "clevel=5"
    ),
    **dict.fromkeys(("filters", "filter", "byteshuffle"), "shuffle='byte'"),
    **dict.fromkeys(("fletcher32", "crc"), "checksum='crc32'"),
    **dict.fromkeys(("chunksize", "chunk_size", "chunkshape", "chunk_shape"), "chunks=1000"),
    **dict.fromkeys(("num_threads", "n_threads", "threads", "n_jobs"), "nthreads=4"),
    **dict.fromkeys(("num_workers", "max_workers", "nworkers", "processes"), "workers=4"),
    **dict.fromkeys(("attributes", "metadata"), "attrs={'unit': 'K'}"),
    **dict.fromkeys(("exist_ok", "force"), "overwrite=True"),
}
# Those that we have nothing for, and what to do instead.
_ABSENT = {
    "mmap_mode": "bloscpack.open reads the part that is indexed",
    "allow_pickle": "objects are never stored or read",
    "dtype": "convert the array by its astype",
    "mode": "bloscpack.open appends with mode 'a'; bloscpack.save replaces a file",
}


def explain_keywords(
    defaults: Mapping[str, Any] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator of functions that check their options, and explain those of others.

    Options of type bool must be True or False: any other value, such as "no", would count as True.

    If the function takes ``**options: Unpack[RECORD]``, its signature lists the options of the
    record; `defaults` has those that are not None.
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        described = _with_record(signature(function), defaults or {})
        known = described.parameters
        flags = {name for name, each in known.items() if each.annotation is bool}

        @wraps(function)
        def explaining(*args: P.args, **kwargs: P.kwargs) -> R:
            for name in kwargs:
                if name not in known:
                    called = explaining.__qualname__.removesuffix(".__init__")
                    advice = foreign_keyword(kwargs, known)
                    fault = f"got an unexpected keyword argument {name!r}"
                    raise TypeError(f"{called}() {f'has no {advice}' if advice else fault}")
                if name in flags and not isinstance(kwargs[name], bool):
                    raise TypeError(f"{name} must be True or False, not {kwargs[name]!r:.80}")
            return function(*args, **kwargs)

        explaining.__signature__ = described  # type: ignore[attr-defined]
        return explaining

    return decorated


def _with_record(described: Signature, defaults: Mapping[str, Any]) -> Signature:
    """Return a signature with the keywords of a record in place of its ``**options``."""
    parameters = list(described.parameters.values())
    if parameters and parameters[-1].kind is Parameter.VAR_KEYWORD:
        (record,) = get_args(parameters.pop().annotation)
        parameters += (
            Parameter(
                name, Parameter.KEYWORD_ONLY, default=defaults.get(name), annotation=annotation
            )
            for name, annotation in get_type_hints(record).items()
        )
    return described.replace(parameters=parameters)


def foreign_keyword(names: Iterable[str], parameters: Collection[str]) -> str | None:
    """Return the first name that only other libraries have, and what to use instead."""
    for name in names:
        if name in _ABSENT and name not in parameters:
            return f"{name!r}: {_ABSENT[name]}"
        example = _KEYWORDS.get(name, "")
        if example.partition("=")[0] in parameters and name not in parameters:
            return f"{name!r}: use {example}"
    return None


# Default decoded size of one task of parallel work.
DEFAULT_BLOCK = "64 MiB"

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_NBYTES = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.ASCII | re.IGNORECASE)


def nbytes_of(size: int | str) -> int:
    """Return a size in bytes, given as a number or as text like "64 MiB", "1.5GB" or "512k".

    Raises
    ------
    ValueError
        The size is less than 1, or the text is not a size.
    """
    if isinstance(size, str):
        match = _NBYTES.fullmatch(size.strip())
        if match is None:
            raise ValueError(
                f"{size!r:.100} is not a size: expected a number of bytes, or text like '64 MiB'"
            )
        number, unit, is_binary = match.groups()
        size = int(float(number) * (_BINARY_UNITS if is_binary else _UNITS)[unit.lower()])
    if isinstance(size, bool) or not hasattr(size, "__index__"):
        raise TypeError(f"a size must be a number of bytes or text like '64 MiB', not {size!r}")
    if size < 1:
        raise ValueError(f"a size must be at least 1 byte, not {size}")
    return int(size)


def text_list(name: str, values: Any) -> list[Any]:
    """Return a list of ids, names or paths, given as any iterable.

    Raises
    ------
    TypeError
        `values` is a single string or path, whose characters would become the entries.
    """
    if isinstance(values, str | bytes | os.PathLike):
        raise TypeError(f"{name} is a list, not a single {type(values).__name__}: [{values!r:.80}]")
    if not isinstance(values, Iterable):
        raise TypeError(f"{name} is a list, not {type(values).__name__}")
    return list(values)


def state_of(state: Any) -> dict[str, Any]:
    """Return a state of a sampler after a check that it is a dict; raises TypeError."""
    if not isinstance(state, dict):
        raise TypeError(f"a state is the dict that state_dict() returns, not {state!r:.80}")
    return state


def word(name: str, value: int) -> int:
    """Return a seed or an epoch after a check that it is an integer of 64 bits."""
    if not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, not {value!r:.80}")
    number = operator.index(value)
    if not 0 <= number < 1 << 64:
        raise ValueError(f"{name} must be 0 to 2 ** 64 - 1, not {number}")
    return number
