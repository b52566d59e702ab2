"""Threads, worker processes, and fork-safe imports of optional libraries."""
