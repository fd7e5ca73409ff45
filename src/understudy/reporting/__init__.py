"""The report: one self-contained page (or Markdown, or JSON) about a release."""

from understudy.reporting.render import Format, report

__all__ = ["Format", "report"]
