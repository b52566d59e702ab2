"""Commands for arrays."""
