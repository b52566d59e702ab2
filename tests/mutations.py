"""Mutation tests: change one thing in a function of the package, and see whether a test fails.

``python -m tests.mutations`` chooses faults, and runs the tests once to learn which of them reach
the statements of those. Then it plants each fault in a forked copy of the process, and runs tests
that reach it until one fails. It prints the outcome of each fault, and the number of those found in
each folder.

The faults are the first in an order that depends on the text of their functions, so that a function
that is the same in two versions of the package gets the same faults in both: their shares can be
compared.

Code that runs in other programs, such as processes that a test spawns, is not changed in them.
"""

import argparse
import ast
import builtins
import functools
import gc
import hashlib
import importlib
import mmap
import os
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "bloscpack"
_REACHED = "_faults_reached"  # a set among the builtins, so that all modules see it

_COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


class Fault(NamedTuple):
    """A change of a function."""

    path: Path
    number: int  # among those of the module
    line: int
    name: str  # of the function
    what: str
    rank: str  # for the choice; depends on nothing but the function and the change

    def __str__(self) -> str:
        return f"{self.path.relative_to(PACKAGE)}:{self.line} {self.name}: {self.what}"

    def code(self) -> CodeType:
        """Return the changed function, compiled."""
        tree = ast.parse(self.path.read_text("utf-8"))
        change = list(_changes(tree))[self.number]
        change.make()
        return _code_of(compile(tree, str(self.path), "exec", dont_inherit=True), change.function)


def faults(path: Path, seed: int) -> list[Fault]:
    """Return every fault that can be planted in a module."""
    found: list[Fault] = []
    changes = _changes(ast.parse(path.read_text("utf-8")))
    for number, (function, node, what, _) in enumerate(changes):
        same = sum(each.name == function.name and each.what == what for each in found)
        rank = hashlib.sha256(f"{seed} {same} {what} {ast.unparse(function)}".encode()).hexdigest()
        line = getattr(node, "lineno", function.lineno)
        found.append(Fault(path, number, line, function.name, what, rank))
    return found


def probes(chosen: list[Fault]) -> Iterator[tuple[Fault, CodeType]]:
    """Yield the functions of faults with code that adds to `_REACHED` what it comes to."""
    for path in {fault.path for fault in chosen}:
        tree = ast.parse(path.read_text("utf-8"))
        changes = list(_changes(tree))
        statements = dict(_statements(tree))
        here = [fault for fault in chosen if fault.path == path]
        for fault in here:
            statement, siblings = statements[changes[fault.number].node]
            probe = ast.parse(f"{_REACHED}.add({fault.rank!r})").body[0]
            for node in ast.walk(probe):
                ast.copy_location(node, statement)
            siblings.insert(siblings.index(statement), probe)
        module = compile(tree, str(path), "exec", dont_inherit=True)
        for fault in here:
            yield fault, _code_of(module, changes[fault.number].function)


def _statements(node: ast.AST) -> Iterator[tuple[ast.AST, tuple[ast.AST, list[Any]]]]:
    """Yield each node with the statement that it is part of, and the list that holds that."""
    for _, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.stmt):
                inner = dict(_statements(child))
                for each in ast.walk(child):
                    yield each, inner.get(each, (child, value))
            elif isinstance(child, ast.AST):
                yield from _statements(child)


class _Change(NamedTuple):
    function: Any
    node: ast.AST
    what: str
    make: Callable[[], object]


def _changes(tree: ast.Module) -> Iterator[_Change]:
    for function in _functions(tree):
        for parent in _nodes(function):
            for child, what, make in _changes_of(parent):
                yield _Change(function, child, what, make)


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all below it that decide what its code does, without texts of errors."""
    yield node
    for name, value in ast.iter_fields(node):
        # Defaults of arguments are not part of the code.
        if name in ("decorator_list", "returns", "annotation") or isinstance(value, ast.arguments):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.Raise | ast.JoinedStr):
                yield from _nodes(child)


def _functions(node: ast.AST) -> Iterator[Any]:
    """Yield functions and methods, but not those inside others."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef) and child.name not in ("__repr__", "__str__"):
            yield child
        elif isinstance(child, ast.ClassDef | ast.If | ast.Try):
            yield from _functions(child)


def _changes_of(node: ast.AST) -> Iterator[tuple[ast.AST, str, Callable[[], object]]]:
    """Yield (node, description, function that makes the change) of each change of one node."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS:
        other = _COMPARISONS[type(node.ops[0])]()
        yield (
            node,
            f"{ast.unparse(node)} -> {type(other).__name__}",
            functools.partial(node.ops.__setitem__, 0, other),
        )
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in _OPERATORS:
        other = _OPERATORS[type(node.op)]()
        yield (
            node,
            f"{ast.unparse(node)} -> {type(other).__name__}",
            functools.partial(setattr, node, "op", other),
        )
    if isinstance(node, ast.Call):
        for keyword in node.keywords:
            yield (
                node,
                f"{ast.unparse(node.func)}() without {keyword.arg}",
                functools.partial(node.keywords.remove, keyword),
            )
    for name, value in ast.iter_fields(node):
        if name in ("decorator_list", "returns", "annotation"):
            continue
        values = value if isinstance(value, list) else [value]
        for place, child in enumerate(values):
            replacement = _replacement(child, name)
            if replacement is not None:
                change = (
                    functools.partial(value.__setitem__, place, replacement)
                    if isinstance(value, list)
                    else functools.partial(setattr, node, name, replacement)
                )
                yield child, f"{ast.unparse(child)} -> {ast.unparse(replacement)}", change


def _replacement(node: Any, field: str) -> ast.AST | None:
    """Return what takes the place of a node, or None."""
    new: ast.AST | None = None
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        new = ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        new = ast.Constant(node.value + 1)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        new = node.operand
    elif isinstance(node, ast.Return) and node.value is not None and field == "body":
        if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            new = ast.Return(ast.Constant(None))
    elif isinstance(node, ast.Raise | ast.AugAssign) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        new = ast.Pass()
    return new and ast.fix_missing_locations(ast.copy_location(new, node))


def _code_of(module: CodeType, function: Any) -> CodeType:
    first = min([function.lineno, *(each.lineno for each in function.decorator_list)])
    pending = [module]
    while pending:
        code = pending.pop()
        if code.co_name == function.name and code.co_firstlineno == first:
            return code
        pending += [each for each in code.co_consts if isinstance(each, CodeType)]
    raise LookupError(f"{function.name} at line {first}")


def _replace(changed: list[tuple[Fault, CodeType]]) -> int:
    """Put codes in the places of those of functions; return how many functions have a new one."""
    for path in {fault.path for fault, _ in changed}:
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        with suppress(ImportError):  # of a library that is not there: no test reaches it
            importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    new = {(str(fault.path), code.co_firstlineno, code.co_name): code for fault, code in changed}
    replaced = 0
    gc.unfreeze()  # of objects that were frozen, the collector returns none
    for each in gc.get_objects():
        # Not isinstance, which asks objects for their class, and some warn.
        if type(each) is FunctionType:
            code = each.__code__
            place = code.co_filename, code.co_firstlineno, code.co_name
            if place in new:
                each.__code__ = new[place]
                replaced += 1
        elif type(each) is functools._lru_cache_wrapper:
            each.cache_clear()  # results of the sound function
    return replaced


class Plugin:
    """Runs the tests once, and then those that reach each fault."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._seconds: dict[pytest.Item, float] = {}
        self._reaching: dict[str, list[pytest.Item]] = defaultdict(list)  # by rank of the fault
        self._sound: set[pytest.Item] = set()  # pass in a forked process without a fault
        self._outcomes: list[str] = []  # of the steps of the test that runs

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run everything, in place of pytest's own loop."""
        items = [each for each in session.items if not each.get_closest_marker("slow")]
        session.config.pluginmanager.unregister(name="terminalreporter")
        chosen = self._choose()
        self._learn(items, chosen)
        print(f"{len(self._seconds)} tests, {len(chosen)} faults", flush=True)
        self._plant_all(chosen)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._outcomes.append(report.outcome)

    def _outcomes_of(self, item: pytest.Item, following: pytest.Item | None) -> list[str]:
        """Run a test with all that its marks ask for, and return the outcome of each step."""
        self._outcomes.clear()
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        return self._outcomes

    def _learn(self, items: list[pytest.Item], chosen: list[Fault]) -> None:
        """Run the tests on the sound package, and remember which of them reach which fault."""
        _replace(list(probes(chosen)))
        reached: set[str] = set()
        setattr(builtins, _REACHED, reached)
        for item, following in zip(items, [*items[1:], None], strict=True):
            reached.clear()
            began = time.perf_counter()
            outcomes = self._outcomes_of(item, following)
            if set(outcomes) == {"passed"}:
                self._seconds[item] = time.perf_counter() - began
                for rank in reached:
                    self._reaching[rank].append(item)
            elif "failed" in outcomes:
                print(f"fails without a fault: {item.nodeid}", flush=True)

    def _choose(self) -> list[Fault]:
        """Choose faults in all modules, more in the larger ones."""
        paths = sorted((PACKAGE / self._options.folder).rglob("*.py"))
        found = [fault for path in paths for fault in faults(path, self._options.seed)]
        return sorted(found, key=lambda each: each.rank)[: self._options.count]

    def _plant_all(self, chosen: list[Fault]) -> None:
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        try:
            for fault in chosen:
                outcome = self._plant(fault)
                counts[fault.path.relative_to(PACKAGE).parts[0]][outcome] += 1
                print(f"{outcome}: {fault}", flush=True)
        finally:
            for room, each in sorted(counts.items()):
                print(f"{room:14} {each['found']:4} of {each.total():4}")
            total = sum(counts.values(), Counter[str]())
            print(f"{'all':14} {total['found']:4} of {total.total():4}  {dict(total)}", flush=True)

    def _plant(self, fault: Fault) -> str:
        """Return whether a test finds a fault, and passes without it in a process like that."""
        items = self._tests_of(fault)
        if not items:
            return "not reached"
        with mmap.mmap(-1, 8) as current:
            while items and not self._passes(fault, items, current):
                item = items[int.from_bytes(current[:8], "little")]
                if item in self._sound or self._passes(None, [item], current):
                    self._sound.add(item)
                    return "found"
                print(f"fails in a forked process without a fault: {item.nodeid}", flush=True)
                self._seconds.pop(item, None)
                items.remove(item)
        return "not found"

    def _tests_of(self, fault: Fault) -> list[pytest.Item]:
        """Return tests that reach a fault: short ones of its folder first, few cases of each."""
        room = f"tests/{fault.path.relative_to(PACKAGE).parts[0]}/"
        cases: Counter[str] = Counter()
        costs = {}
        for item in self._reaching[fault.rank]:
            if item in self._seconds:
                test = item.nodeid.partition("[")[0]
                cases[test] += 1
                distance = 1 if test.startswith(room) else 10
                costs[item] = self._seconds[item] * cases[test] * distance
        chosen: list[pytest.Item] = []
        left = self._options.seconds
        for item in sorted(costs, key=costs.__getitem__):
            left -= self._seconds[item]
            if left < 0 and chosen:
                break
            chosen.append(item)
        return chosen

    def _passes(self, fault: Fault | None, items: list[pytest.Item], current: mmap.mmap) -> bool:
        """Run tests in a process of their own, which stores the number of the current one.

        Tests that hang do not pass.
        """
        deadline = time.monotonic() + 15 + 3 * sum(self._seconds[item] for item in items)
        pid = os.fork()
        if pid == 0:
            os.setsid()
            status = 2
            try:
                status = self._run_in_child(fault, items, current)
            except BaseException:
                traceback.print_exc()
                raise
            finally:
                os._exit(status)
        ended, status = 0, 0
        while not ended and time.monotonic() < deadline:
            time.sleep(0.01)
            ended, status = os.waitpid(pid, os.WNOHANG)
        with suppress(ProcessLookupError):  # they have ended, in most cases
            os.killpg(pid, signal.SIGKILL)
        if not ended:
            os.waitpid(pid, 0)
            return False
        if os.waitstatus_to_exitcode(status) == 2:
            raise RuntimeError("the fault was not planted: see the traceback above")
        return status == 0

    def _run_in_child(
        self, fault: Fault | None, items: list[pytest.Item], current: mmap.mmap
    ) -> int:
        if fault and not _replace([(fault, fault.code())]):
            raise LookupError(f"no function {fault}")
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        for number, (item, following) in enumerate(zip(items, [*items[1:], None], strict=True)):
            current[:8] = number.to_bytes(8, "little")
            if "failed" in self._outcomes_of(item, following):
                return 1
        return 0


def main() -> int:
    """Run the tests named, or all, with faults."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--count", type=int, default=300, help="number of faults")
    parser.add_argument("--folder", default="", help="change only modules of this folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=6, help="time of tests for each fault")
    parser.add_argument("tests", nargs="*", default=["tests"], help="files or folders of tests")
    options = parser.parse_args()
    arguments = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", *options.tests]
    # Forked processes do not remove the old folders that pytest makes by default.
    with tempfile.TemporaryDirectory() as folder:
        arguments.append(f"--basetemp={folder}/tests")
        return int(pytest.main(arguments, plugins=[Plugin(options)]))


if __name__ == "__main__":
    sys.exit(main())
