"""Pages from templates, with escaping always on."""

from __future__ import annotations

from functools import cached_property
from importlib.resources import files
from typing import Any

import jinja2

from understudy._version import __version__

__all__ = ["Renderer"]


class Renderer:
    """Fills the templates of the studio."""

    def __init__(self) -> None:
        self._folder = files("understudy.studio").joinpath("pages")
        self._environment = jinja2.Environment(
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            loader=jinja2.FunctionLoader(self._page),
        )

    def __call__(self, page: str, **values: Any) -> str:
        """The text of a page."""
        return self._environment.get_template(page).render(version=__version__, **values)

    def _page(self, name: str) -> str:
        folder = files("understudy.serving") if name == "ask" else self._folder
        return folder.joinpath(f"{name}.html.jinja").read_text("utf-8")

    @cached_property
    def script(self) -> str:
        """Our JavaScript."""
        return self._text("studio.js")

    @cached_property
    def style(self) -> str:
        """The report's style, the served release's, and ours."""
        report = files("understudy.reporting").joinpath("style.css").read_text("utf-8")
        served = files("understudy.serving").joinpath("release.css").read_text("utf-8")
        return report + served + self._text("studio.css")

    def _text(self, name: str) -> str:
        return self._folder.joinpath(name).read_text("utf-8")
