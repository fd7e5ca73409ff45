"""PRIVATE records: readers for files and tables, and known public sets by name."""

from understudy.data.codes import from_long
from understudy.data.databases import Database
from understudy.data.draft import draft_schema
from understudy.data.public.fetch import download_bar
from understudy.data.public.known import known, known_names, known_schema
from understudy.data.read import read
from understudy.data.records import Dataset, Records

__all__ = [
    "Database",
    "Dataset",
    "Records",
    "download_bar",
    "draft_schema",
    "from_long",
    "known",
    "known_names",
    "known_schema",
    "read",
]
