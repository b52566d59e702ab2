"""The version number, in the one place the build and the package read it from."""

__version__ = "1.0.0rc1"
