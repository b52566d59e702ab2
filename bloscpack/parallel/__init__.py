"""Threads and processes, and imports that are safe with both."""
