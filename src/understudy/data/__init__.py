"""PRIVATE records: readers for files and tables, and known public sets by name."""

from understudy.data.known import known, known_names, known_schema
from understudy.data.records import Dataset, Records

__all__ = ["Dataset", "Records", "known", "known_names", "known_schema"]
