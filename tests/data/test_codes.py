from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from understudy.data import from_long, read
from understudy.data.codes import icd9_category
from understudy.errors import DataError, SchemaError
from understudy.records.encode import encode
from understudy.schema import Binary, CodeSchema, LongFile, UnknownCodes, schema_from_toml, schema_to_toml

LONG = pd.DataFrame(
    {"who": [7, 7, 3, 7, 5], "code": ["250", "401", "401", "250", None], "sex": ["f", "f", "m", "f", "m"]}
)


def test_long_tables_become_one_row_per_person() -> None:
    """Codes are counted per person, up to the most that the schema counts; people without codes stay."""
    schema = CodeSchema(("401", "250"), max_count=5, label=Binary("sex", ("f", "m")))
    wide = from_long(LONG, schema, person="who", code="code").frame
    assert wide.to_dict("list") == {"401": [1, 1, 0], "250": [2, 0, 0], "sex": ["f", "m", "m"]}
    binary = from_long(LONG, CodeSchema(("401", "250")), person="who", code="code")
    assert encode(binary, CodeSchema(("401", "250"))).x.tolist() == [[1, 1], [1, 0], [0, 0]]


def test_codes_not_in_the_schema() -> None:
    """A code that is not listed is refused with its row, or dropped."""
    with pytest.raises(DataError, match="column 'code', row 1: the code is not in the schema"):
        from_long(LONG, CodeSchema(("401",)), person="who", code="code")
    dropped = from_long(LONG, CodeSchema(("401",), unknown=UnknownCodes.DROP), person="who", code="code")
    assert dropped.frame["401"].tolist() == [1, 1, 0]


@pytest.mark.parametrize("name", ["long.csv", "long.parquet"])
def test_long_files_are_read_where_the_schema_names_their_columns(name: str, tmp_path: Path) -> None:
    """One row per person and code becomes one record per person; "008" is not 8; wide files can still be read."""
    schema = CodeSchema(("008", "401"), label=Binary("sex", ("f", "m")), long=LongFile("who", "code"))
    assert schema_from_toml(schema_to_toml(schema)) == schema
    frame = pd.DataFrame({"who": [7, 7, 3], "code": ["008", "401", "401"], "sex": ["f", "f", "m"]})
    path = tmp_path / name
    frame.to_csv(path, index=False) if name.endswith("csv") else frame.to_parquet(path)
    for source in (path, frame):
        wide = read(source, schema)
        assert encode(wide, schema).x.tolist() == [[1, 1], [0, 1]]
        assert encode(read(wide.frame, schema), schema).x.tolist() == [[1, 1], [0, 1]]
    wide.frame.to_csv(tmp_path / "wide.csv", index=False)
    assert encode(read(tmp_path / "wide.csv", schema), schema).x.tolist() == [[1, 1], [0, 1]]
    with pytest.raises(SchemaError, match="two columns"):
        LongFile("who", "who")


@pytest.mark.parametrize("unknown", list(UnknownCodes))
def test_a_long_file_that_is_taken_for_a_wide_one_is_refused(unknown: UnknownCodes) -> None:
    """Records without any code, which "drop" would make of it silently, are not what anybody means."""
    with pytest.raises(
        DataError, match=r"has 'who', 'code', 'sex'. If it has one row per person and code, name"
    ):
        encode(LONG, CodeSchema(("401",), unknown=unknown))


def test_broken_long_tables() -> None:
    """A missing column and a row that belongs to nobody are refused."""
    with pytest.raises(DataError, match="no column 'patient'"):
        from_long(LONG, CodeSchema(("401",)), person="patient", code="code")
    with pytest.raises(DataError, match="column 'code', row 5: the cell is empty"):
        from_long(LONG, CodeSchema(("401",)), person="code", code="code")


def test_icd9_categories() -> None:
    """Codes are cut to their three-digit category, with leading zeros that spreadsheets lose."""
    codes = pd.Series(["250.83", "8", "38.9", "V27.1", "E909", None], dtype=object)
    assert icd9_category(codes).fillna("none").tolist() == ["250", "008", "038", "V27", "E909", "none"]
