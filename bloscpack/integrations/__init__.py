"""Bridges to other libraries, each imported only by the module of its name."""
