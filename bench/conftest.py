"""Fixtures that race the contenders of a case, and the table of ratios after a run."""

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from race.original import NoOriginalError, Original
from race.page import machine, original_versions, text_table
from race.timing import ORIGINAL, Loop, Timing, take_turns
from ratios import Row, cells
from replay import load_replay

ROWS = pytest.StashKey[list[Row]]()
WHERE = pytest.StashKey[dict[str, str]]()

Loops = dict[str, Loop]


@pytest.fixture(scope="session")
def original(pytestconfig: pytest.Config) -> Iterator[Original | str]:
    """Provide the running original, or the reason why it is absent."""
    running: Original | str
    try:
        running = Original()
    except (NoOriginalError, OSError) as err:
        running = str(err)
    versions = running if isinstance(running, str) else running.versions
    pytestconfig.stash[WHERE] = machine() | original_versions(versions)
    yield running
    if not isinstance(running, str):
        running.close()


@pytest.fixture(scope="session")
def timings() -> dict[str, dict[str, Timing]]:
    """Provide the store of timings, by case and contender."""
    return {}


@pytest.fixture
def race(
    benchmark: Any,
    original: Original | str,
    timings: dict[str, dict[str, Timing]],
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., None]:
    """Provide a call that races all contenders of a case once, and reports one of them."""

    def run(
        case: str,
        who: str,
        nbytes: int,
        enter: Callable[[Original | None, Path], Loops],
        per_call: int = 1,
    ) -> None:
        if who == ORIGINAL and isinstance(original, str):
            pytest.skip(original)
        if case not in timings:
            running = None if isinstance(original, str) else original
            timings[case] = take_turns(enter(running, tmp_path_factory.mktemp("race")), per_call)
            gc.collect()
        timing = timings[case][who]
        load_replay(timing)
        benchmark.group = case
        benchmark.extra_info.update(
            case=case,
            who=who,
            nbytes=nbytes,
            mb_per_s=nbytes / timing.best / 1e6,
            surroundings=pytestconfig.stash[WHERE],
        )
        benchmark.pedantic(lambda: None, rounds=len(timing.seconds))
        row = Row(case, who, nbytes, timing.best, timing.median, len(timing.seconds))
        pytestconfig.stash.setdefault(ROWS, []).append(row)

    return run


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the table of ratios."""
    rows = config.stash.get(ROWS, [])
    if not rows:
        return
    terminalreporter.section("bloscpack, and how many times as fast as the others it is")
    for line in text_table(cells(rows)):
        terminalreporter.write_line(line)
    terminalreporter.write_line("")
    terminalreporter.write_line(
        f"MB/s of decoded bytes and ratios by the best of {rows[0].rounds} rounds or fewer; "
        "a ratio above 1: bloscpack is faster"
    )
    for name, text in config.stash[WHERE].items():
        terminalreporter.write_line(f"{name}: {text}")
