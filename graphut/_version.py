"""The version, which needs no other module."""

__version__ = "0.1.0"
