"""Mutation tests: change one thing in a function of the package, and see whether a test fails.

``python -m tests.mutations`` runs the tests once, to learn which of them call which function. Then
it plants each fault in a forked copy of the process, and runs the tests that call the changed
function until one fails. It prints the number of faults found in each folder, and the faults that
no test found. The same seed makes the same choice as long as the package is the same; the shares of
two versions can be compared, as the faults are of the same kinds and spread in the same way.

Code that runs in other programs, such as processes that a test spawns, is not changed in them.
"""

import argparse
import ast
import cProfile
import functools
import gc
import mmap
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "bloscpack"

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

    def __str__(self) -> str:
        return f"{self.path.relative_to(PACKAGE)}:{self.line} {self.name}: {self.what}"

    def code(self) -> CodeType:
        """Return the changed function, compiled."""
        tree = ast.parse(self.path.read_text("utf-8"))
        function, _, _, change = list(_changes(tree))[self.number]
        change()
        return _code_of(compile(tree, str(self.path), "exec", dont_inherit=True), function)


def faults(path: Path) -> list[Fault]:
    """Return every fault that can be planted in a module."""
    changes = _changes(ast.parse(path.read_text("utf-8")))
    return [
        Fault(path, number, line, function.name, what)
        for number, (function, line, what, _) in enumerate(changes)
    ]


def _changes(tree: ast.Module) -> Iterator[tuple[Any, int, str, Callable[[], object]]]:
    """Yield (function, line, description, function that makes the change) of each change."""
    for function in _functions(tree):
        for parent in _nodes(function):
            for child, what, change in _changes_of(parent):
                yield function, getattr(child, "lineno", function.lineno), what, change


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all below it that decide what a function does, without texts of errors."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("decorator_list", "returns", "annotation"):
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


class Plugin:
    """Runs the tests once, and then those that call each changed function."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._seconds: dict[pytest.Item, float] = {}
        self._callers: dict[CodeType, list[pytest.Item]] = defaultdict(list)
        self._codes: set[CodeType] = set()
        self._outcomes: list[str] = []  # of the steps of the test that runs

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run everything, in place of pytest's own loop."""
        items = [each for each in session.items if not each.get_closest_marker("slow")]
        session.config.pluginmanager.unregister(name="terminalreporter")
        threading.setprofile(self._in_thread)
        for item, following in zip(items, [*items[1:], None], strict=True):
            self._learn(item, following)
        threading.setprofile(None)  # type: ignore[arg-type]
        chosen = self._choose()
        print(f"{len(self._seconds)} tests, {len(chosen)} faults", flush=True)
        self._plant_all(chosen)
        return True

    def _in_thread(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self._codes.add(frame.f_code)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._outcomes.append(report.outcome)

    def _outcomes_of(self, item: pytest.Item, following: pytest.Item | None) -> list[str]:
        """Run a test with all that its marks ask for, and return the outcome of each step."""
        self._outcomes.clear()
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        return self._outcomes

    def _learn(self, item: pytest.Item, following: pytest.Item | None) -> None:
        """Run a test on the sound package, and remember the functions that it calls."""
        profile = cProfile.Profile(builtins=False)
        self._codes.clear()
        began = time.perf_counter()
        profile.enable()
        outcomes = self._outcomes_of(item, following)
        profile.disable()
        if set(outcomes) != {"passed"}:
            if "failed" in outcomes:
                print(f"fails without a fault: {item.nodeid}", flush=True)
            return
        self._seconds[item] = time.perf_counter() - began
        called = {each.code for each in profile.getstats() if not isinstance(each.code, str)}
        for code in called | self._codes:
            if code.co_filename.startswith(str(PACKAGE)):
                self._callers[code].append(item)

    def _choose(self) -> list[Fault]:
        """Choose faults in all modules, more in the larger ones."""
        generator = random.Random(self._options.seed)
        paths = sorted((PACKAGE / self._options.folder).rglob("*.py"))
        sizes = [path.stat().st_size for path in paths]
        chosen: dict[str, Fault] = {}
        found: dict[Path, list[Fault]] = {}
        while len(chosen) < self._options.count:
            path = generator.choices(paths, sizes)[0]
            if path not in found:
                found[path] = faults(path)
            if found[path]:
                fault = generator.choice(found[path])
                chosen[str(fault)] = fault
        return list(chosen.values())

    def _plant_all(self, chosen: list[Fault]) -> None:
        codes = {(c.co_filename, c.co_firstlineno, c.co_name): c for c in self._callers}
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for fault in chosen:
            new = fault.code()
            code = codes.get((str(fault.path), new.co_firstlineno, new.co_name))
            items = [each for each in self._callers[code] if each in self._seconds] if code else []
            items.sort(key=self._seconds.__getitem__)
            outcome = self._plant(code, new, items) if code else "not called"
            counts[fault.path.relative_to(PACKAGE).parts[0]][outcome] += 1
            if outcome != "found":
                print(f"{outcome}: {fault}", flush=True)
        for room, each in sorted(counts.items()):
            print(f"{room:14} {each['found']:4} of {each.total():4}")
        total = sum(counts.values(), Counter[str]())
        print(f"{'all':14} {total['found']:4} of {total.total():4}  {dict(total)}", flush=True)

    def _plant(self, code: CodeType, new: CodeType, items: list[pytest.Item]) -> str:
        """Return whether a test finds a fault, and passes without it in a process like that."""
        with mmap.mmap(-1, 8) as failed:
            outcome = self._run(code, new, items, failed)
            if outcome == "found":
                item = items[int.from_bytes(failed[:8], "little")]
                if self._run(code, code, [item], failed) != "not found":
                    self._seconds.pop(item, None)
                    print(f"fails in a forked process without a fault: {item.nodeid}", flush=True)
                    return self._plant(code, new, [each for each in items if each is not item])
        return outcome

    def _run(
        self, code: CodeType, new: CodeType, items: list[pytest.Item], failed: mmap.mmap
    ) -> str:
        """Run tests in a process of their own, and store the number of the one that fails."""
        pid = os.fork()
        if pid == 0:
            os.setsid()
            status = 2
            try:
                status = self._run_in_child(code, new, items, failed)
            except BaseException:
                traceback.print_exc()
                raise
            finally:
                os._exit(status)
        deadline = time.monotonic() + self._options.seconds
        ended, status = 0, 0
        while not ended and time.monotonic() < deadline:
            time.sleep(0.01)
            ended, status = os.waitpid(pid, os.WNOHANG)
        if not ended:  # it hangs, or the tests take too long
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return "time"
        if os.waitstatus_to_exitcode(status) == 2:
            raise RuntimeError("the fault was not planted: see the traceback above")
        return "not found" if status == 0 else "found"

    def _run_in_child(
        self, code: CodeType, new: CodeType, items: list[pytest.Item], failed: mmap.mmap
    ) -> int:
        gc.unfreeze()  # of objects that were frozen, the collector returns none
        for each in gc.get_referrers(code):
            if type(each) is FunctionType:
                each.__code__ = new
        for each in gc.get_objects():  # results of the sound function
            # Not isinstance, which asks objects for their class, and some warn.
            if type(each) is functools._lru_cache_wrapper:
                each.cache_clear()
        for number, (item, following) in enumerate(zip(items, [*items[1:], None], strict=True)):
            failed[:8] = number.to_bytes(8, "little")
            if "failed" in self._outcomes_of(item, following):
                return 1
        return 0


def main() -> int:
    """Run the tests named, or all, with faults."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--count", type=int, default=300, help="number of faults")
    parser.add_argument("--folder", default="", help="change only modules of this folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60, help="limit for each fault")
    parser.add_argument("tests", nargs="*", default=["tests"], help="files or folders of tests")
    options = parser.parse_args()
    arguments = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", *options.tests]
    return int(pytest.main(arguments, plugins=[Plugin(options)]))


if __name__ == "__main__":
    sys.exit(main())
