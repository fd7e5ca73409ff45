"""How useful synthetic tables are: train on synthetic, test on real; and how far their marginals are from real ones.

Run `python -m benchmarks.utility_tables [--json FILE] [--runs N] [--only TEXT] [--ablation] [--rivals PYTHON]`. Each
cell is a whole private training with fresh noise from the operating system, as many rows drawn from the release as
there are training rows, and:

- if there is a label, macro one-vs-rest AuROC and accuracy on real test rows, of classifiers that saw synthetic rows
  only,
- the mean total variation of one- and two-way marginals against the test rows (numbers in ten bins of equal mass of
  these),
- for the survey, SDNist's k-marginal score on ten demographic features,
- the certified ε, and the CPU seconds of the training.

The file given with --json holds finished cells; they are skipped when the command is run again. `dp-cgan-tf2` takes
batches of 32 (as `dp-cgan-thyroid` does) and 1,000 private steps, to which its noise is calibrated. The lines of real
data are the ceiling. With `--rivals PYTHON` the systems of `benchmarks/rivals.py` are measured too.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.rivals import RIVALS, made_by
from benchmarks.utility_cells import measure_cells, parser_for
from benchmarks.utility_systems import REAL, Cell
from understudy.data import known
from understudy.evaluation.familiar import k_marginal_score
from understudy.evaluation.layout import Layout
from understudy.evaluation.learners import Learner, train
from understudy.evaluation.scores import accuracy, macro_auroc
from understudy.evaluation.tables import one_way_error, two_way_error
from understudy.planning import plan
from understudy.records.encode import encode
from understudy.run.progress import fit_with_bar
from understudy.schema import TableSchema
from understudy.synthesizers.gan.papers import dp_cgan_tf2
from understudy.synthesizers.gan.printed import DP_CGAN_THYROID
from understudy.synthesizers.marginals.recipe import UNDERSTUDY_TABLES

if TYPE_CHECKING:
    import pandas as pd
    from rich.progress import Progress as Bar

    from understudy.data.records import Dataset
    from understudy.synthesizers.protocol import Recipe

    Line = dict[str, Any]

BASELINE = "dp-cgan-tf2"
DELTA = 1e-5
GRID = (
    ("thyroid", 3.7),
    ("thyroid", 1.0),
    ("breast-cancer", 3.7),
    ("adult", 1.0),
    ("adult", 3.7),
    ("acs", 1.0),
    ("acs", 3.7),
)
MUCH = 50.0
"""A budget at which noise is no excuse: the errors of a generator should be those of real rows."""
TABLES = ("thyroid", "breast-cancer", "wine", "iris", "adult", "acs")
DEMOGRAPHIC = (
    "AGEP",
    "SEX",
    "MSP",
    "HISP",
    "RAC1P",
    "HOUSING_TYPE",
    "OWN_RENT",
    "EDU",
    "PINCP_DECILE",
    "DVET",
)
"""Ten features of the survey that describe persons, for SDNist's k-marginal score."""
LEARNERS = (Learner.LOGISTIC_REGRESSION, Learner.GRADIENT_BOOSTING)


def systems() -> dict[str, Recipe]:
    """Our recipe, and what is left of it when marginals are taken out."""
    own = UNDERSTUDY_TABLES
    return {
        "understudy": own,
        "columns only": replace(own, label_share=0.0, pair_share=0.0, triple_share=0.0),
        "columns, label pairs": replace(own, pair_share=0.0, triple_share=0.0),
        "no triples": replace(own, triple_share=0.0),
        BASELINE: replace(
            dp_cgan_tf2(32, batch=32), steps=1000, critic_optimiser=DP_CGAN_THYROID.critic_optimiser
        ),
    }


def cells_of(runs: int, *, ablation: bool, rivals: bool) -> list[Cell]:
    """What is measured, what is cheap and what matters first."""
    cells = [Cell(data, epsilon, "understudy", run) for run in range(runs) for data, epsilon in GRID]
    cells += [Cell(data, 3.7, BASELINE, run) for run in range(runs) for data in ("thyroid", "breast-cancer")]
    cells += [Cell(data, None, REAL, 0) for data in TABLES]
    cells += [Cell(data, MUCH, "understudy", run) for run in range(runs) for data in TABLES]
    if ablation:
        left_out = [name for name in systems() if name not in ("understudy", BASELINE)]
        cells += [
            Cell(*GRID[which], name, run) for run in range(runs) for which in (0, 3) for name in left_out
        ]
    if rivals:
        cells += [
            Cell(data, epsilon, name, run) for run in range(runs) for name in RIVALS for data, epsilon in GRID
        ]
    return cells


def measure(cell: Cell, bar: Bar, rivals: Path | None = None) -> Line:
    """One line of the table; `rivals` is the Python of theirs."""
    dataset = known(cell.data)
    assert isinstance(dataset.schema, TableSchema)
    line: Line = {"data": cell.data, "budget": cell.epsilon, "system": cell.system, "run": cell.run}
    frame = dataset.train.frame
    if cell.system in RIVALS:
        assert rivals is not None
        assert cell.epsilon is not None
        drawn, seconds = made_by(rivals, cell.system, frame, dataset.schema, cell.epsilon, DELTA)
        return line | {"seconds": seconds} | _scores(drawn, dataset, dataset.schema, cell.run)
    if cell.epsilon is not None:
        recipe = systems()[cell.system]
        rows = len(dataset.train)
        made = plan(dataset.schema, epsilon=cell.epsilon, delta=DELTA, rows=rows, recipe=recipe)
        start = time.process_time()
        release = fit_with_bar(bar, dataset.train, made)
        line["seconds"] = time.process_time() - start
        line["epsilon"] = made.spent.epsilon if made.spent is not None else None
        frame = release.sample(rows, seed=cell.run)  # type: ignore[assignment]
    return line | _scores(frame, dataset, dataset.schema, cell.run)


def _scores(frame: pd.DataFrame, dataset: Dataset, schema: TableSchema, seed: int) -> Line:
    rows, test = encode(frame, schema), encode(dataset.test, schema)
    line: Line = {}
    for learner in LEARNERS:
        if rows.labels is None or test.labels is None:
            continue
        predict = train(learner, rows.x, rows.labels, len(schema.label_classes or ()), seed)
        probabilities = predict(test.x)
        line[f"{learner.value}, AuROC"] = macro_auroc(test.labels, probabilities)
        line[f"{learner.value}, accuracy"] = accuracy(test.labels, probabilities)
    layout = Layout.of(schema).by_mass(dataset.test.frame)
    real, made = layout.codes(dataset.test.frame), layout.codes(frame)
    line["one-way error"] = one_way_error(real, made, layout.sizes)
    line["two-way error"] = two_way_error(real, made, layout.sizes)
    if set(DEMOGRAPHIC) <= set(layout.columns):
        some = replace(
            layout,
            numeric={name: one for name, one in layout.numeric.items() if name in DEMOGRAPHIC},
            categorical={name: one for name, one in layout.categorical.items() if name in DEMOGRAPHIC},
        )
        line["k-marginal"] = k_marginal_score(dataset.test.frame, frame, some)
    return line


def main() -> None:
    """Measure what is missing, print the table."""
    parser = parser_for(__doc__, "tables")
    parser.add_argument("--ablation", action="store_true", help="also take out marginals: thyroid and adult")
    parser.add_argument("--rivals", type=Path, help="the Python of an environment that has dpmm")
    options = parser.parse_args()
    numbers = [f"{one.value}, {what}" for one in LEARNERS for what in ("AuROC", "accuracy")]
    numbers += ["one-way error", "two-way error", "k-marginal", "seconds"]
    cells = cells_of(options.runs, ablation=options.ablation, rivals=options.rivals is not None)
    measure_cells(options, cells, partial(measure, rivals=options.rivals), numbers)


if __name__ == "__main__":
    main()
