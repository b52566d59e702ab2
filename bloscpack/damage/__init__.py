"""Damaged files: verify, repair, recover, and the reports of what was found."""
