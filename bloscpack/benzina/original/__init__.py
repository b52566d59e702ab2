"""API of Benzina's own Python package."""
