"""Bridges to other libraries; each library is imported only by the module of its name."""
