"""Type aliases shared by several modules."""

from typing import Any, TypeAlias

import numpy as np

AnyArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]
IntArray: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
BytesLike: TypeAlias = bytes | bytearray | memoryview
