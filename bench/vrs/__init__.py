"""Sensor recordings beside the vrs wheel and mcap; ``make bench-vrs`` runs it."""
