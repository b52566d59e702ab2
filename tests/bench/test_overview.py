"""The chart of the README has the figures of the benchmark pages."""

import importlib.util

import pytest

from .conftest import BENCH


@pytest.fixture(scope="module")
def overview():
    spec = importlib.util.spec_from_file_location("overview", BENCH / "overview.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_chart_is_that_of_the_pages(overview):
    """If a page has changed: ``python bench/overview.py``."""
    assert overview.CHART.read_text("utf-8") == overview.chart()


@pytest.mark.parametrize(
    ("cell", "unit", "expected"),
    [
        ("29.7 us, 135 MB/s", "us", (29.7, "30")),
        ("1.2 ms (41.90)", "us", (1200, "1,200")),
        ("110,216 (0.696)", "kB", (110.216, "110")),
        ("2 (52.43)", "MB", (2, "2 (52.43 MB)")),
    ],
)
def test_figures_of_cells(overview, cell, unit, expected):
    assert overview.number(cell, unit) == expected
