"""The version, read by the build and written into every release card."""

__version__ = "0.1.0"
