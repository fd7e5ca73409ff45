"""PRIVATE records: readers for files and tables, and known public sets by name."""

from understudy.data.codes import from_long
from understudy.data.public.fetch import download_bar
from understudy.data.public.known import known, known_names, known_schema
from understudy.data.read import read
from understudy.data.records import Dataset, Records

__all__ = [
    "Dataset",
    "Records",
    "download_bar",
    "from_long",
    "known",
    "known_names",
    "known_schema",
    "read",
]
