"""The report: one self-contained page (or Markdown, or JSON) about a release."""

from understudy.report.render import Format, make_report

__all__ = ["Format", "make_report"]
