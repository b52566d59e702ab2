"""Entry point of ``python -m bloscpack``, the same as ``blpk``."""

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
