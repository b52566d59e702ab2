"""Compiled kernels, built from ``ext/*.pyx``; there is no slower substitute for them."""
