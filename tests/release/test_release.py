"""Releases: what is in them, and what is refused when they are loaded."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save

from tiny import TINY_TABLE, tiny_frame, tiny_plan
from understudy.errors import ReleaseError
from understudy.release.readme import likelihood_factor
from understudy.release.release import FORMAT, Release
from understudy.run.fit import fit


@pytest.fixture
def folder(table_release: Release, tmp_path: Path) -> Path:
    return table_release.save(tmp_path / "release")


def edit_card(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    card = json.loads((folder / "card.json").read_text())
    change(card)
    (folder / "card.json").write_text(json.dumps(card))


def put_weights(folder: Path, blob: bytes) -> None:
    """Replace the weights and make the card agree, as an attacker would."""
    (folder / "generator.safetensors").write_bytes(blob)

    def agree(card: dict[str, Any]) -> None:
        for record in card["files"]:
            if record["name"] == "generator.safetensors":
                record["bytes"], record["sha256"] = len(blob), hashlib.sha256(blob).hexdigest()

    edit_card(folder, agree)


def test_save_and_load_give_the_same_release(table_release: Release, folder: Path) -> None:
    """Nothing is lost or changed on the way through the folder."""
    loaded = Release.load(folder)
    assert loaded.card.plan == table_release.card.plan
    assert loaded.card.label_weights == table_release.card.label_weights
    for name, tensor in table_release.weights.items():
        assert np.array_equal(loaded.weights[name], tensor)
    assert loaded.sample(20, seed=3).equals(table_release.sample(20, seed=3))  # type: ignore[arg-type]


def test_the_folder_holds_exactly_the_specified_files(folder: Path) -> None:
    """A release is three files and no leftovers."""
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "card.json",
        "generator.safetensors",
    ]
    assert [path.name for path in folder.parent.iterdir()] == ["release"]


def test_an_existing_path_is_not_overwritten(table_release: Release, folder: Path) -> None:
    """A second save to the same place is refused."""
    with pytest.raises(ReleaseError, match="exists already"):
        table_release.save(folder)


def walk(value: object) -> list[object]:
    """Every object inside a value."""
    found = [value]
    if is_dataclass(value):
        for field in fields(value):
            found += walk(getattr(value, field.name))
    elif isinstance(value, dict):
        for item in value.values():
            found += walk(item)
    elif isinstance(value, tuple | list):
        for item in value:
            found += walk(item)
    return found


def test_a_release_holds_nothing_of_the_private_rows() -> None:
    """No frame, no array, no marker string and no exact class count is anywhere in the object or its files."""
    frame = tiny_frame()
    frame["town"] = frame["town"].where(frame.index != 5, "west")
    release = fit(frame.assign(secret="MARKER-7391"), tiny_plan())
    model = release.card.plan.recipe.model(release.schema)
    assert (
        model.misfit(release.weights) is None
    )  # the weights are those of the generator, and nothing beside them
    for item in walk(release.card):
        assert not isinstance(item, pd.DataFrame | np.ndarray)
        assert not (isinstance(item, str) and "MARKER" in item)
    exact = frame["outcome"].value_counts(normalize=True)["well"]
    assert release.card.label_weights is not None
    assert release.card.label_weights[0] != exact


@pytest.mark.parametrize(
    ("epsilon", "expected"), [(0.0, "1"), (2.0, "7.39"), (5.0, "148"), (7.997, "2,970"), (40.0, "e^40")]
)
def test_factors_are_written_for_people(epsilon: float, expected: str) -> None:
    """How much likelier an outcome may become is printed without powers of ten."""
    assert likelihood_factor(epsilon) == expected


def test_the_model_card_states_epsilon_and_neighbours(table_release: Release, folder: Path) -> None:
    """A data-protection officer finds ε, δ, the adjacency and every charge in plain text."""
    text = (folder / "README.md").read_text()
    assert table_release.card.plan.spent is not None
    assert f"ε = {table_release.card.plan.spent.epsilon:.4f}" in text
    assert "add-or-remove-one" in text
    assert "label histogram" in text
    assert "NOT PRIVATE" not in text


@pytest.mark.parametrize("how", ["seed", "baseline"])
def test_unprotected_releases_are_stamped_everywhere(how: str, tmp_path: Path) -> None:
    """A seeded or noiseless run is NOT PRIVATE in card and README, also after loading."""
    made = tiny_plan() if how == "seed" else tiny_plan(epsilon=None)
    release = fit(tiny_frame(), made, insecure_seed=1 if how == "seed" else None)
    folder = release.save(tmp_path / "r")
    assert not Release.load(folder).card.private
    assert "NOT PRIVATE" in (folder / "README.md").read_text()


@pytest.mark.parametrize("missing", ["card.json", "generator.safetensors"])
def test_a_missing_file_is_named(folder: Path, missing: str) -> None:
    """An incomplete folder is refused and the missing file is named."""
    (folder / missing).unlink()
    with pytest.raises(ReleaseError, match=missing):
        Release.load(folder)


def test_a_changed_byte_is_found(folder: Path) -> None:
    """The hash protects the weights."""
    path = folder / "generator.safetensors"
    blob = bytearray(path.read_bytes())
    blob[-1] ^= 1
    path.write_bytes(blob)
    with pytest.raises(ReleaseError, match="damaged or replaced"):
        Release.load(folder)


def test_a_link_is_refused(folder: Path) -> None:
    """A release cannot make the reader open another file."""
    other = folder.parent / "elsewhere"
    (folder / "generator.safetensors").rename(other)
    (folder / "generator.safetensors").symlink_to(other)
    with pytest.raises(ReleaseError, match="not a plain file"):
        Release.load(folder)


@pytest.mark.parametrize("found", [0, 1, FORMAT + 1, str(FORMAT), None, FORMAT + 0.5])
def test_an_unknown_format_is_refused(folder: Path, found: object) -> None:
    """A reader never guesses what another version meant."""
    edit_card(folder, lambda card: card.update(format=found))
    with pytest.raises(ReleaseError, match="format"):
        Release.load(folder)


@pytest.mark.parametrize("epsilon", [0.01, -1.0, math.nan, math.inf])
def test_a_card_that_states_less_than_its_charges_cost_is_refused(folder: Path, epsilon: float) -> None:
    """The ε of a card is computed from its charges whenever a release is loaded, and so by every command."""
    edit_card(folder, lambda card: card["plan"]["spent"].update(epsilon=epsilon))
    with pytest.raises(ReleaseError, match=r"is stated|cannot be negative|finite"):
        Release.load(folder)


def test_a_card_with_a_charge_less_is_refused(folder: Path) -> None:
    """A line that was taken out of the bill makes it cheaper than what was drawn."""
    edit_card(folder, lambda card: card["plan"].update(charges=card["plan"]["charges"][1:]))
    with pytest.raises(ReleaseError, match="charges it 0 times"):
        Release.load(folder)


def test_an_unknown_key_is_refused(folder: Path) -> None:
    """A card that says something this version does not know is not half understood."""
    edit_card(folder, lambda card: card.update(extra=1))
    with pytest.raises(ReleaseError, match="extra"):
        Release.load(folder)


@pytest.mark.parametrize("blob", [b"", b"\x80\x04.", b"PK\x03\x04", b"\xff" * 64, b"{" * 64])
def test_bytes_that_are_not_safetensors_are_refused(folder: Path, blob: bytes) -> None:
    """Pickles, archives and rubbish are refused even when the card's hash agrees."""
    put_weights(folder, blob)
    with pytest.raises(ReleaseError, match="safetensors"):
        Release.load(folder)


def test_weights_of_another_shape_or_value_are_refused(table_release: Release, folder: Path) -> None:
    """Weights must be those of the described generator, and finite."""
    weights = {name: one.copy() for name, one in table_release.weights.items()}
    first = next(iter(weights))
    put_weights(folder, save({**weights, first: np.zeros(3, dtype=np.float32)}))
    with pytest.raises(ReleaseError, match="shape"):
        Release.load(folder)
    weights[first].flat[0] = math.nan
    put_weights(folder, save(weights))
    with pytest.raises(ReleaseError, match="not finite"):
        Release.load(folder)


def test_a_card_that_describes_a_huge_network_is_refused_before_allocation(folder: Path) -> None:
    """A small file cannot make the reader allocate a large network."""
    edit_card(folder, lambda card: card["plan"]["recipe"]["generator"].update(hidden=[2_000_000, 2_000_000]))
    with pytest.raises(ReleaseError, match="parameters"):
        Release.load(folder)


def test_the_schema_is_published_as_declared(folder: Path) -> None:
    """The public facts come back exactly."""
    assert Release.load(folder).schema == TINY_TABLE
