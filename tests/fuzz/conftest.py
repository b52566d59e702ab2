"""The length of fuzz runs: ``--fuzz-count N``, or BLOSCPACK_FUZZ in the environment.

The option is known where tests/fuzz is named on the command line; the variable works everywhere.
"""

import os

import pytest

DEFAULT_COUNT = 10_000


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fuzz-count", type=int, help="cases a fuzz run has (10000)")
    parser.addoption("--fuzz-seed", help="what the cases of a fuzz run are drawn from")


@pytest.fixture
def fuzz_count(pytestconfig: pytest.Config) -> int:
    named = pytestconfig.getoption("--fuzz-count", default=None)
    return named or int(os.environ.get("BLOSCPACK_FUZZ") or DEFAULT_COUNT)


@pytest.fixture
def fuzz_seed(pytestconfig: pytest.Config) -> str:
    return pytestconfig.getoption("--fuzz-seed", default=None) or "bloscpack"
