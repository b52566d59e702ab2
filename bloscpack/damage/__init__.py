"""Damaged files: verify, repair, recover, and their reports."""
