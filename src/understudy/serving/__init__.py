"""One release, read-only, for analysts: pages, downloads and an HTTP API. Nothing here reaches private data."""

from understudy.serving.app import Limits, release_app

__all__ = ["Limits", "release_app"]
