"""The public tree of codes: built in for ICD-9 and ICD-10, or declared."""

from __future__ import annotations

from itertools import pairwise

import pytest

from understudy.errors import SchemaError
from understudy.schema import CodeBlock, CodeSchema, CodeTree, schema_from_toml, schema_to_toml
from understudy.schema.code_tree import _ranges, place_of


@pytest.mark.parametrize(
    ("code", "tree", "place"),
    [
        ("250.83", CodeTree.ICD_9, ("240-279", "249-259")),
        ("25083", CodeTree.ICD_9, ("240-279", "249-259")),
        ("8", CodeTree.ICD_9, ("001-139", "001-009")),
        ("V27.1", CodeTree.ICD_9, ("V01-V91", "V20-V29")),
        ("E950", CodeTree.ICD_9, ("E000-E999", "E950-E959")),
        ("i21.4", CodeTree.ICD_10, ("I00-I99", "I20-I25")),
        ("E11", CodeTree.ICD_10, ("E00-E90", "E08-E14")),
        ("O9A.1", CodeTree.ICD_10, ("O00-O9A", "O94-O9A")),
        ("019", CodeTree.ICD_9, None),
        ("aspirin", CodeTree.ICD_10, None),
    ],
)
def test_codes_have_their_place(code: str, tree: CodeTree, place: tuple[str, str] | None) -> None:
    """Codes with and without dots and zeros are in their chapter and block; what does not exist is nowhere."""
    assert place_of(code, tree) == place


@pytest.mark.parametrize("tree", CodeTree)
def test_blocks_do_not_overlap_and_lie_in_their_chapter(tree: CodeTree) -> None:
    """The built-in lists have no slip: ranges rise, end after they begin, and stay within their chapter."""
    for chapter, blocks in _ranges(tree).items():
        first, last = chapter.split("-")
        ends = [one.split("-") for one in blocks]
        assert all(begin <= end for begin, end in ends)
        assert all(before[1] < after[0] for before, after in pairwise(ends))
        assert ends[0][0] >= first
        assert ends[-1][1] <= last


def test_a_schema_declares_a_tree_or_blocks() -> None:
    """Both are public facts that go through TOML; the levels number each code's group, the coarsest first."""
    schema = CodeSchema(("250", "251", "401", "019"), tree=CodeTree.ICD_9)
    assert schema_from_toml(schema_to_toml(schema)) == schema
    chapters, blocks = schema.levels
    assert chapters[0] == chapters[1] != chapters[2] != chapters[3]
    assert blocks[0] == blocks[1] != blocks[2]
    own = CodeSchema(("a", "b", "c"), blocks=(CodeBlock("first", ("a", "b")),))
    assert schema_from_toml(schema_to_toml(own)) == own
    assert own.levels[0][0] == own.levels[0][1] != own.levels[0][2]
    assert CodeSchema(("a", "b")).levels == ()


def test_blocks_that_contradict_are_refused() -> None:
    """A code that is not listed or is in two blocks, and a tree beside blocks, are errors."""
    for wrong in (
        (CodeBlock("x", ("z",)),),
        (CodeBlock("x", ("a",)), CodeBlock("y", ("a",))),
        (CodeBlock("", ("a",)),),
    ):
        with pytest.raises(SchemaError, match="block"):
            CodeSchema(("a", "b"), blocks=wrong)
    with pytest.raises(SchemaError, match="not both"):
        CodeSchema(("a",), tree=CodeTree.ICD_9, blocks=(CodeBlock("x", ("a",)),))
