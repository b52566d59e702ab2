"""Length of fuzz runs: ``--fuzz-count N``, BLOSCPACK_FUZZ in the environment, or ``--all``.

The option exists only if tests/fuzz is on the command line; the variable always works.
"""

import os

import pytest

SHORT_COUNT = 40
LONG_COUNT = 4000


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fuzz-count", type=int, help="cases of a fuzz run (40; 4000 with --all)")
    parser.addoption("--fuzz-seed", help="what the cases of a fuzz run are drawn from")


@pytest.fixture
def fuzz_count(pytestconfig: pytest.Config) -> int:
    named = pytestconfig.getoption("--fuzz-count", default=None)
    usual = LONG_COUNT if pytestconfig.getoption("--all") else SHORT_COUNT
    return named or int(os.environ.get("BLOSCPACK_FUZZ") or usual)


@pytest.fixture
def fuzz_seed(pytestconfig: pytest.Config) -> str:
    return pytestconfig.getoption("--fuzz-seed", default=None) or "bloscpack"
