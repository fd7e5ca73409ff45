"""Parts that were counted apart give the fit of one process, each exactly once, and nothing is drawn twice."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tiny import TINY_IMAGES, TINY_TABLE, tiny_frame, tiny_plan
from understudy.door.rounds import AddingDoor
from understudy.errors import CheckpointError, PartsError, PlanError, RanksError
from understudy.ledger.account import LedgerAccount
from understudy.ledger.ledger import Ledger
from understudy.planning import Plan, plan
from understudy.privacy.budget import Budget
from understudy.release.release import Release
from understudy.run import parts as parts_module
from understudy.run import rounds as rounds_module
from understudy.run.fit import fit
from understudy.run.parts import Part
from understudy.run.rounds import Waiting, count_part, fit_from_parts
from understudy.run.shards import Shard, Shards
from understudy.run.working_files import facts_and_tensors
from understudy.schema import Binary, CodeSchema, Continuous, Integer

CODES = CodeSchema(
    tuple(f"c{number}" for number in range(6)), max_count=3, label=Binary("dead", ("no", "yes"))
)
DEEP = replace(
    TINY_TABLE,
    columns=(Continuous("pay", 0.0, 1e6, decimals=2), Integer("code", 0, 10**6), *TINY_TABLE.columns),
)
PERSONS = replace(TINY_TABLE, person="who", max_rows_per_person=2)


def deep_frame(rows: int) -> pd.DataFrame:
    source = np.random.default_rng(5)
    pay = np.where(source.random(rows) < 0.4, 1234.5, source.uniform(0, 1e6, rows).round(2))
    return tiny_frame(rows).assign(pay=pay, code=source.integers(0, 10**6, rows))


def code_frame(rows: int) -> pd.DataFrame:
    source = np.random.default_rng(5)
    counts = source.integers(0, 4, (rows, 6))
    return pd.DataFrame(counts, columns=list(CODES.codes)).assign(dead=source.choice(["no", "yes"], rows))


CASES: dict[str, tuple[Any, pd.DataFrame]] = {
    "table": (TINY_TABLE, tiny_frame(300)),
    "piles": (DEEP, deep_frame(300)),
    "persons": (PERSONS, tiny_frame(300).assign(who=np.arange(300) // 3)),
    "codes": (CODES, code_frame(300)),
}


def own_plan(schema: Any = TINY_TABLE, **options: Any) -> Plan:
    return plan(schema, **{"epsilon": 5.0, "delta": 1e-3, "rows": None, "steps": 6, **options})


def counted(folder: Path, data: object, made: Plan, size: int, **options: Any) -> list[Path]:
    """The parts of one round."""
    paths = [folder / f"part-{rank}" for rank in range(size)]
    for rank, path in enumerate(paths):
        count_part(data, made, Shard(rank, size), path, after=folder / "answers", **options)
    return paths


def in_rounds(folder: Path, data: object, made: Plan, size: int, **options: Any) -> tuple[Release, int]:
    """The release, and after how many rounds."""
    for number in range(1, 20):
        found = fit_from_parts(counted(folder, data, made, size), made, folder / "answers", **options)
        if isinstance(found, Release):
            return found, number
        assert found.round == number + 1 <= found.most
    raise AssertionError("there is no end of rounds")


@pytest.mark.parametrize(("kind", "size"), [("table", 1), *((kind, 3) for kind in CASES)])
def test_parts_give_the_release_of_one_process(tmp_path: Path, kind: str, size: int) -> None:
    """With one seed, a fit in rounds over shards is bit for bit the fit of all records at once, noise included."""
    schema, frame = CASES[kind]
    made = own_plan(schema)
    alone = fit(frame, made, insecure_seed=3)
    release, rounds = in_rounds(tmp_path, frame, made, size, insecure_seed=3)
    assert rounds == len(made.recipe.releases(schema, None))
    assert alone.weights.keys() == release.weights.keys()
    assert all(np.array_equal(value, release.weights[name]) for name, value in alone.weights.items())
    assert release.card.label_weights == alone.card.label_weights
    assert not release.card.private


def test_a_private_fit_charges_each_question_once(tmp_path: Path) -> None:
    """The ledger has one entry with every draw of the plan, the release is private, and no part is left."""
    made = own_plan()
    with Ledger(tmp_path / "ledger", create=True) as book:
        book.register("ours", Budget(5.0, 1e-3))
        for _ in range(20):
            account = LedgerAccount(book, "ours")
            paths = counted(tmp_path, tiny_frame(), made, 2)
            found = fit_from_parts(paths, made, tmp_path / "answers", account=account)
            assert not any(path.exists() for path in paths)
            if isinstance(found, Release):
                break
        assert isinstance(found, Release)
        assert found.card.private
        assert found.card.warnings == ()
        (entry,) = book.statement("ours").entries
        assert entry.draws == {one.purpose: 1 for one in made.charges}
        assert entry.release is not None


def test_parts_and_answers_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    """A part has no noise, and answers are a working file: mode 0600 for both."""
    made = own_plan()
    paths = counted(tmp_path, tiny_frame(), made, 2)
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
    fit_from_parts(paths, made, tmp_path / "answers")
    assert stat.S_IMODE((tmp_path / "answers").stat().st_mode) == 0o600


def test_an_empty_shard_adds_zeros(tmp_path: Path) -> None:
    """More shards than records are fine."""
    made, frame = own_plan(), tiny_frame(3)
    assert isinstance(in_rounds(tmp_path, frame, made, 5)[0], Release)


def test_shards_of_their_own(tmp_path: Path) -> None:
    """Each shard from a file of its own; the same one twice is refused, and so are persons."""
    made = own_plan()

    def parts(*seeds: int) -> list[Path]:
        paths = [tmp_path / f"part-{rank}" for rank in range(2)]
        for rank, path in enumerate(paths):
            frame = tiny_frame(40, seeds[rank])
            count_part(frame, made, Shard(rank, 2), path, shards=Shards.OWN)
        return paths

    with pytest.raises(PartsError, match="the same shard"):
        fit_from_parts(parts(1, 1), made, tmp_path / "answers")
    assert isinstance(fit_from_parts(parts(1, 2), made, tmp_path / "answers"), Waiting)
    schema, frame = CASES["persons"]
    with pytest.raises(RanksError, match="two shards"):
        count_part(frame, own_plan(schema), Shard(0, 2), tmp_path / "part", shards=Shards.OWN)


# ------------------------------------------------------------------------------------------ refusals


def missing(folder: Path, made: Plan) -> list[Path]:
    return counted(folder, tiny_frame(), made, 3)[:2]


def doubled(folder: Path, made: Plan) -> list[Path]:
    paths = counted(folder, tiny_frame(), made, 2)
    shutil.copy(paths[0], folder / "copy")
    return [*paths, folder / "copy"]


def of_another_number(folder: Path, made: Plan) -> list[Path]:
    """Parts 1/2 and 3/3: the number of each is there once."""
    first, _ = counted(folder, tiny_frame(), made, 2)
    first.rename(folder / "first")
    return [folder / "first", counted(folder, tiny_frame(), made, 3)[1]]


def of_another_plan(folder: Path, made: Plan) -> list[Path]:
    paths = counted(folder, tiny_frame(), made, 2)
    count_part(tiny_frame(), own_plan(epsilon=4.0), Shard(1, 2), paths[1])
    return paths


def of_other_data(folder: Path, made: Plan) -> list[Path]:
    """The same rows in another order: a record could be in both shards."""
    paths = counted(folder, tiny_frame(), made, 2)
    count_part(tiny_frame().iloc[::-1], made, Shard(1, 2), paths[1])
    return paths


def of_another_version(folder: Path, made: Plan) -> list[Path]:
    paths = counted(folder, tiny_frame(), made, 2)
    rewritten(paths[1], lambda part: replace(part, round=replace(part.round, versions="understudy 0")))
    return paths


def of_an_earlier_round(folder: Path, made: Plan) -> list[Path]:
    kept = [
        shutil.copy(path, folder / f"kept-{path.name}") for path in counted(folder, tiny_frame(), made, 2)
    ]
    fit_from_parts(counted(folder, tiny_frame(), made, 2), made, folder / "answers")
    return [Path(path) for path in kept]


def of_another_question(folder: Path, made: Plan) -> list[Path]:
    paths = counted(folder, tiny_frame(), made, 2)
    rewritten(paths[1], lambda part: replace(part, probe="other groups"))
    return paths


def with_another_bound(folder: Path, made: Plan) -> list[Path]:
    paths = counted(folder, tiny_frame(), made, 2)
    rewritten(paths[1], lambda part: replace(part, scale=2 * part.scale))
    return paths


def rewritten(path: Path, change: Callable[[Part], Part]) -> None:
    part, sums = facts_and_tensors(Part, path, path.read_bytes(), "a part", error=PartsError)
    change(part).save(path, [sums[name] for name in sorted(sums)])


SPOILT: dict[Any, str] = {
    missing: "part 3/3 is missing",
    doubled: "part 1/2 is there 2 times",
    of_another_number: "parts of 2 shards and parts of 3",
    of_another_plan: "another plan",
    of_other_data: "not dealt from the same data",
    of_another_version: "another version",
    of_an_earlier_round: "another round of this fit",
    of_another_question: "otherwise than this process would ask",
    with_another_bound: "otherwise than this process would ask",
}


def check_nothing_is_drawn(folder: Path, spoil: Any) -> None:
    """The spoilt parts are refused with the right words, and the ledger has no draw that was not there before."""
    made = own_plan()
    paths = spoil(folder, made)
    entry = None
    with Ledger(folder / "ledger", create=True) as book:
        book.register("ours", Budget(5.0, 1e-3))
        account: Any = LedgerAccount(book, "ours")
        if (folder / "answers").exists():  # of a round that was charged nowhere
            account = None
        with pytest.raises(PartsError, match=SPOILT[spoil]):
            entry = fit_from_parts(paths, made, folder / "answers", account=account)
        assert entry is None
        assert not book.counted("ours")
    assert all(path.exists() for path in paths)


@pytest.mark.parametrize("spoil", SPOILT, ids=lambda spoil: spoil.__name__)
def test_spoilt_parts_are_refused_before_anything_is_charged(tmp_path: Path, spoil: Any) -> None:
    """Missing, doubled and foreign parts: refused, nothing charged, nothing deleted."""
    check_nothing_is_drawn(tmp_path, spoil)


def counts_what_is_there(parts: Any) -> None:
    """Planted: nobody looks whether every shard is there once."""


def takes_any_plan(parts: Any, wanted: Any) -> None:
    """Planted: parts of other plans, versions and rounds are taken."""


def knows_numbers_only(parts: dict[Path, Part]) -> None:
    """Planted: every number up to the largest is there once, of whatever number of shards."""
    numbers = [part.shard.rank for part in parts.values()]
    if sorted(numbers) != list(range(len(numbers))):
        raise PartsError("part 1/2 is there 2 times, or part 3/3 is missing")


MUTANTS: list[tuple[str, Any, Any]] = [
    ("refuse_missing", counts_what_is_there, missing),
    ("refuse_missing", counts_what_is_there, doubled),
    ("refuse_missing", knows_numbers_only, of_another_number),
    ("refuse_foreign", takes_any_plan, of_another_plan),
    ("refuse_foreign", takes_any_plan, of_another_version),
    ("refuse_foreign", takes_any_plan, of_an_earlier_round),
    ("refuse_other_data", counts_what_is_there, of_other_data),
]


@pytest.mark.parametrize(
    ("name", "mutant", "spoil"), MUTANTS, ids=lambda part: getattr(part, "__name__", part)
)
def test_the_refusals_kill_planted_bugs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mutant: Any, spoil: Any
) -> None:
    """With a check planted away, spoilt parts are summed up, and the test above fails."""
    monkeypatch.setattr(parts_module, name, mutant)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check_nothing_is_drawn(tmp_path, spoil)


def test_questions_are_compared() -> None:
    """The purpose, the noise and the made-up records each tell two questions apart."""
    question = SimpleNamespace(purpose="columns", scale=1.0, probe="a")
    held = parts_module.Parts.__new__(parts_module.Parts)
    for change in ({"purpose": "pairs"}, {"scale": 2.0}, {"probe": "b"}):
        held._found = {Path("part"): SimpleNamespace(**{**vars(question), **change})}  # type: ignore[dict-item]
        with pytest.raises(PartsError, match="otherwise"):
            held.of(question)  # type: ignore[arg-type]


# ---------------------------------------------------------------------------------- nothing is drawn twice


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger", create=True) as book:
        book.register("ours", Budget(5.0, 1e-3))
        yield book


def one_round(folder: Path, book: Ledger, made: Plan) -> Release | Waiting:
    paths = counted(folder, tiny_frame(), made, 2)
    return fit_from_parts(paths, made, folder / "answers", account=LedgerAccount(book, "ours"))


def test_answers_that_are_put_back_are_not_drawn_again(tmp_path: Path, book: Ledger) -> None:
    """Who restores an older file of answers would see a second noise on the same sums: refused by the record."""
    made = own_plan()
    one_round(tmp_path, book, made)
    old = (tmp_path / "answers").read_bytes()
    one_round(tmp_path, book, made)
    (tmp_path / "answers").write_bytes(old)
    with pytest.raises(CheckpointError, match="cannot be drawn again"):
        one_round(tmp_path, book, made)
    (tmp_path / "answers").unlink()
    with pytest.raises(Exception, match="ε"):
        one_round(tmp_path, book, made)  # a new fit, which the budget does not allow


def test_a_kill_between_the_draw_and_its_answer_leaves_it_spent(
    tmp_path: Path, book: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was charged and lost is refused afterwards, not drawn with new noise."""
    made = own_plan()
    one_round(tmp_path, book, made)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(AddingDoor, "_drawn", killed)
    with pytest.raises(KeyboardInterrupt):
        one_round(tmp_path, book, made)
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="They are spent"):
        one_round(tmp_path, book, made)


def test_a_fit_that_was_killed_after_its_last_answer_goes_on_without_parts(
    tmp_path: Path, book: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The release can be had from the answers alone."""
    made = own_plan()

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(rounds_module.Run, "release", killed)
        with pytest.raises(KeyboardInterrupt):
            [one_round(tmp_path, book, made) for _ in range(20)]
    with pytest.raises(PlanError, match="everything is answered"):
        count_part(tiny_frame(), made, Shard(0, 1), tmp_path / "part", after=tmp_path / "answers")
    account = LedgerAccount(book, "ours")
    assert isinstance(fit_from_parts([], made, tmp_path / "answers", account=account), Release)


def test_what_needs_steps_is_refused() -> None:
    """Critics, labellers and schemas with something to discover need processes that talk, or one process."""
    for made in (tiny_plan(TINY_TABLE), own_plan(TINY_IMAGES, rows=100)):
        with pytest.raises(PlanError, match="again and again"):
            count_part(tiny_frame(), made, Shard(0, 1), Path("unused"))
    with pytest.raises(PartsError, match="no parts yet"):
        fit_from_parts([], own_plan(), Path("absent"))


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/0", "-1/3"])
def test_a_shard_is_a_number_of_several(text: str) -> None:
    """Numbers run from one to how many there are."""
    with pytest.raises(PartsError):
        Shard.of(text)
    assert Shard.of("3/3") == Shard(2, 3)
