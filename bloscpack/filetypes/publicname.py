"""Public names of functions that are written under another name in another module."""

from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])


def known_as(module: str, name: str) -> Callable[[Function], Function]:
    """Return a decorator that gives a function the name under which `module` exports it.

    `help` and tracebacks show that name, and a pickle finds the function by it.
    """

    def rename(function: Function) -> Function:
        function.__module__ = module
        function.__name__ = function.__qualname__ = name
        return function

    return rename
