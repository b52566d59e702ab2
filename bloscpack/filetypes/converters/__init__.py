"""Converters: one module for each file type that `convert` writes."""
