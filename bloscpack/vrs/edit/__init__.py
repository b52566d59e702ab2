"""Recordings made of others: copied, merged, repaired."""
