"""Copying, merging and repairing recordings."""
