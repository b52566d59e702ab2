"""Core figures through pytest-benchmark, for its tables, comparisons and JSON.

The contenders of a case race once, as by ``python -m race core``; each test then hands the measured
times of one contender to pytest-benchmark, whose clock they replace.
"""

from collections import deque
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import Any

import pytest
from core.cases import FULL, WORK, Core, Task, tasks_of
from core.figures import ratios
from race.page import text_table
from race.timing import BARE, ORIGINAL, OURS

TASKS = [task for work in WORK for task in tasks_of(work, FULL)]
_ticks: deque[float] = deque()


class Summary:
    """Plugin of pytest that prints the ratios below its tables."""

    def __init__(self, races: Core) -> None:
        self._races = races

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        lines = text_table(ratios(self._races.cases))
        about = (f"{name}: {text}" for name, text in self._races.about().items())
        terminalreporter.section("bloscpack, and how many times as fast as the others it is")
        for line in (*lines, "", "MB/s of decoded bytes and ratios by the best round", *about):
            terminalreporter.write_line(line)


@pytest.fixture(scope="module")
def races(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Core]:
    """Provide the races with the results so far."""
    folder = tmp_path_factory.mktemp("core")
    races = Core(FULL, folder, folder, [], lambda line: None)
    pytestconfig.pluginmanager.register(Summary(races))
    with races.closing:
        yield races


@cache
def hold(task: Task, races: Core) -> Any:
    """Return the result of a race, held once."""
    return task.hold(races)


def replay() -> float:
    """Return the next time; differences are the measured seconds."""
    return _ticks.popleft() if _ticks else 0.0


@pytest.mark.benchmark(timer=replay)
@pytest.mark.parametrize("who", [OURS, BARE, ORIGINAL])
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.title)
def test_core(task: Task, who: str, races: Core, benchmark: Any) -> None:
    """Report one contender of a case."""
    if who in races.absent:
        pytest.skip(races.absent[who])
    seconds = hold(task, races).seconds[who]
    _ticks.clear()
    _ticks.extend(chain.from_iterable((0.0, one) for one in seconds))
    benchmark.group = task.title
    benchmark.extra_info.update(
        case=task.title,
        who=who,
        nbytes=task.nbytes,
        mb_per_s=task.nbytes / min(seconds) / 1e6,
        surroundings=races.about(),
    )
    benchmark.pedantic(lambda: None, rounds=len(seconds))
