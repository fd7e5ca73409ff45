from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from understudy.data import from_long, read
from understudy.data.codes import icd9_category
from understudy.data.draft import draft_schema
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
    """Records without any code, which "drop" would make of it silently, are not what anybody means.

    The names of columns, which may be keys of single records, are for the curator only.
    """
    with pytest.raises(DataError, match="If it has one row per person and code, name") as refusal:
        encode(LONG, CodeSchema(("401",), unknown=unknown))
    assert "'who'" not in str(refusal.value)
    assert "'who', 'code', 'sex'" in str(refusal.value.private_detail)


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


def test_meds_folders(tmp_path: Path) -> None:
    """Shards of the Medical Event Data Standard are recognised, and a person in two shards is one record."""
    for shard, rows in (("train/0", [(1, "A"), (1, "B"), (2, "A")]), ("held_out/0", [(1, "A"), (3, None)])):
        path = tmp_path / "data" / f"{shard}.parquet"
        path.parent.mkdir(parents=True)
        frame = pd.DataFrame(rows, columns=["subject_id", "code"])
        frame.assign(time=pd.Timestamp("2020-01-01"), numeric_value=1.5).to_parquet(path)
    text = draft_schema(tmp_path / "data")
    assert "FILL IN" in text
    assert '"A"' not in text
    schema = schema_from_toml(text.replace('# codes = ["...", "..."]', 'codes = ["A", "B"]'))
    assert isinstance(schema, CodeSchema)
    assert schema.long == LongFile("subject_id", "code")
    assert sorted(encode(read(tmp_path / "data", schema), schema).x.tolist()) == [[0, 0], [1, 0], [1, 1]]


def test_omop_tables(tmp_path: Path) -> None:
    """Concept ids of an OMOP table are codes, also where empty ones made them floating-point numbers."""
    frame = pd.DataFrame(
        {
            "person_id": [5, 5, 6],
            "condition_concept_id": [201826, 0, None],
            "condition_start_date": ["2020-01-01"] * 3,
        }
    )
    for path in (tmp_path / "condition_occurrence.csv", tmp_path / "condition_occurrence.parquet"):
        frame.convert_dtypes().to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
        learned = schema_from_toml(draft_schema(path, from_public=True))
        assert isinstance(learned, CodeSchema)
        assert learned.long == LongFile("person_id", "condition_concept_id")
        schema = CodeSchema(("201826",), unknown=UnknownCodes.DROP, long=learned.long)
        assert encode(read(path, schema), schema).x.tolist() == [[1], [0]]
