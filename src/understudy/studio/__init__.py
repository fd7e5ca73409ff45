"""The whole journey in a browser, on this machine only; every step calls the public library."""

from understudy.studio.app import Studio, studio_app

__all__ = ["Studio", "studio_app"]
