"""How faithful synthetic code vectors are: the ICD-9 codes of the diabetes data of 130 hospitals.

Run `python -m benchmarks.utility_codes [--json FILE] [--runs N] [--only TEXT]`. Each cell is a whole private training
with fresh noise from the operating system, 20,000 records drawn from the release, and against real test records:

- the mean absolute difference of the codes' prevalences, and their correlation,
- the relative distance of the co-occurrence matrices of the 256 most frequent codes,
- the earth mover's distance of the number of codes per record,
- the mean AuROC of predicting each of the 12 most frequent codes from all others, trained on 10,000 synthetic records,
- for counted codes the mean absolute difference of mean counts, and their correlation,
- the CPU seconds of the training.

`diabetes130:800` and `diabetes130:3000` are that many training records, drawn at random, and 4,000 records are made;
beside them stand independent noisy prevalences (`benchmarks/independent_codes.py`). Phantom codes are those that
neither test nor training records have.

The file given with --json holds finished cells; they are skipped when the command is run again. `ppgan` takes 3,000
private steps, to which its noise is calibrated. The lines of real data are 20,000 training records: the ceiling.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from benchmarks.independent_codes import independent_codes
from benchmarks.utility_cells import measure_cells, parser_for
from benchmarks.utility_systems import REAL, Cell
from understudy.data import known, read
from understudy.evaluation.codes import (
    code_measures,
    phantom_codes,
    prevalence_correlation,
    prevalence_error,
)
from understudy.planning import plan
from understudy.privacy.budget import Budget
from understudy.run.progress import fit_with_bar
from understudy.schema import CodeSchema

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    Line = dict[str, Any]

DRAWN = 20_000
DRAWN_OF_FEW = 4_000
INDEPENDENT = "independent"
PRESENT, COUNTED = "diabetes130", "diabetes130-counts"
FEW = tuple(f"{PRESENT}:{rows}" for rows in (800, 3_000))
BASELINE = "ppgan"
BASELINE_STEPS = 3_000
COLUMNS = (
    "prevalence error",
    "prevalence correlation",
    "co-occurrence error",
    "triples of codes error",
    "phantom codes",
    "distinct records",
    "codes per row error",
    "dimension-wise prediction",
    "count error",
    "count correlation",
    "seconds",
)


def cells_of(runs: int) -> list[Cell]:
    """What is measured, what is cheap and what matters first."""
    cells = [
        Cell(data, 1.0, system, run)
        for run in range(runs)
        for data in (*FEW, PRESENT)
        for system in ("understudy", INDEPENDENT)
        if data in FEW or system == INDEPENDENT
    ]
    cells += [
        Cell(data, epsilon, "understudy", run)
        for run in range(runs)
        for data in (PRESENT, COUNTED)
        for epsilon in (1.0, 10.0)
    ]
    cells += [Cell(data, None, REAL, 0) for data in (PRESENT, COUNTED, *FEW)]
    return cells + [Cell(data, 10.0, BASELINE, 0) for data in (PRESENT, COUNTED)]


def measure(cell: Cell, bar: Bar) -> Line:
    """One line of the table."""
    name, _, rows = cell.data.partition(":")
    dataset = known(name)
    assert isinstance(dataset.schema, CodeSchema)
    line: Line = {"data": cell.data, "budget": cell.epsilon, "system": cell.system, "run": cell.run}
    drawn = DRAWN_OF_FEW if rows else DRAWN
    train = dataset.train.frame.sample(int(rows), random_state=1) if rows else dataset.train.frame
    frame = train if rows else train.sample(DRAWN, random_state=0)
    if cell.system == INDEPENDENT and cell.epsilon is not None:
        start, codes = time.process_time(), list(dataset.schema.codes)
        made_up = independent_codes(train[codes].to_numpy() > 0, Budget(cell.epsilon, 1e-5), drawn)
        line["seconds"] = time.process_time() - start
        frame = pd.DataFrame(made_up, columns=codes)
    elif cell.epsilon is not None:
        made = plan(
            dataset.schema,
            epsilon=cell.epsilon,
            rows=len(train),
            recipe=cell.system,
            steps=BASELINE_STEPS if cell.system == BASELINE else None,
        )
        start = time.process_time()
        release = fit_with_bar(bar, read(train.reset_index(drop=True), dataset.schema), made)
        line["seconds"] = time.process_time() - start
        line["epsilon"] = made.spent.epsilon if made.spent is not None else None
        frame = release.sample(drawn, seed=cell.run)  # type: ignore[assignment]
    return line | _scores(frame, dataset.test.frame, train, dataset.schema)


def _scores(frame: pd.DataFrame, test: pd.DataFrame, train: pd.DataFrame, schema: CodeSchema) -> Line:
    made, real, seen = (
        np.minimum(one.reindex(columns=list(schema.codes), fill_value=0).to_numpy(), schema.max_count)
        for one in (frame, test, train)
    )
    line: Line = {name: compute().value for name, compute in code_measures(made > 0, real > 0)}
    line["phantom codes"] = phantom_codes(np.concatenate([real, seen]) > 0, made > 0)
    if schema.max_count > 1:
        line |= {
            "count error": prevalence_error(real, made),
            "count correlation": prevalence_correlation(real, made),
        }
    return line


def main() -> None:
    """Measure what is missing, print the table."""
    options = parser_for(__doc__, "codes").parse_args()
    measure_cells(options, cells_of(options.runs), measure, COLUMNS, digits=5)


if __name__ == "__main__":
    main()
