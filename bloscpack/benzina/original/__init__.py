"""The names of Benzina's own Python package."""
