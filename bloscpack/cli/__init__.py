"""The ``blpk`` command: parse, call the library, print."""
