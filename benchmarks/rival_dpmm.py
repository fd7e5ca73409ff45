"""Synthetic tables by dpmm (MST or AIM), for the benchmark of tables; runs in an environment of its own.

    python rival_dpmm.py METHOD EPSILON DELTA FOLDER

The folder holds `rows.csv` and `domain.json` (bounds or categories of every column, as dpmm wants them). This writes
`made.csv`, with as many rows, and `seconds.json`, with the CPU seconds of fitting. Of ε dpmm's own division is
kept: a tenth for the bins of numbers, the rest for the model, together ε.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pandas as pd
from dpmm.pipelines import AIMPipeline, MSTPipeline

METHODS = {"mst": MSTPipeline, "aim": AIMPipeline}
BINS = 0.1


def main(method: str, epsilon: float, delta: float, folder: Path) -> None:
    """Fit, sample, write."""
    domain = json.loads((folder / "domain.json").read_text(encoding="utf-8"))
    named = {name: one["categories"] for name, one in domain.items() if "categories" in one}
    empty = {name: [""] for name in domain if name not in named}
    rows = pd.read_csv(
        folder / "rows.csv", dtype=dict.fromkeys(named, str), keep_default_na=False, na_values=empty
    )
    for name, categories in named.items():
        rows[name] = pd.Categorical(rows[name], categories=categories)
    system = METHODS[method](epsilon=(1 - BINS) * epsilon, delta=delta, proc_epsilon=BINS * epsilon, n_jobs=1)
    start = time.process_time()
    system.fit(rows, domain)
    seconds = time.process_time() - start
    system.generate(n_records=len(rows)).to_csv(folder / "made.csv", index=False)
    (folder / "seconds.json").write_text(json.dumps(seconds), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4]))
