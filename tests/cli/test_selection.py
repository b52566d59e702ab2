import numpy as np
import pytest

from bloscpack.cli.console.selection import parse_selection_text
from bloscpack.cli.console.status import UsageError

ARRAY = np.arange(10 * 6 * 4).reshape(10, 6, 4)


SOUND = """0 -1 +3 2:5 ::2 ::-1 8:2:-3 : ... 1,... ...,0 1,2,3 1:3,::2 -5:,1 3, ...,::-1,2"""
UNSOUND = """, 1,,2 ,1
    a 1.0 1e3 0x10 1_000 None newaxis True 1:2:3:4 ::0 .... .. ...,... [1 1] [[1]] []
    (1,) 1;2 --1 __import__('os') 1+1 \u0661 \u00b2 99999999999999999999"""


@pytest.mark.parametrize("text", [*SOUND.split(), " 1 : 3 , : : 2 ", "[1, 2:]", "[-5:]", "[...]"])
def test_a_selection_equals_that_of_numpy(text: str) -> None:
    code = text.strip().removeprefix("[").removesuffix("]")
    expected = eval(f"ARRAY[{code}]", {"ARRAY": ARRAY})
    assert np.array_equal(ARRAY[parse_selection_text(text)], expected)


@pytest.mark.parametrize("text", [*UNSOUND.split(), "", " ", "1 2", "1\n2", "- 1"])
def test_refuses_everything_else(text: str) -> None:
    with pytest.raises(UsageError, match="selection"):
        parse_selection_text(text)
