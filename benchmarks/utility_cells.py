"""The loop and the table of benchmarks of usefulness: cells are measured one by one, kept in a file, and averaged."""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from understudy.run.progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.progress import Progress as Bar

    from benchmarks.utility_systems import Cell

    Line = dict[str, Any]

__all__ = ["measure_cells", "parser_for"]


def parser_for(words: str | None, name: str) -> argparse.ArgumentParser:
    """Options that all such benchmarks have."""
    parser = argparse.ArgumentParser(description=words, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path("bench-utility") / f"{name}.json"
    parser.add_argument("--json", type=Path, default=default, help="finished cells; read and written")
    parser.add_argument("--runs", type=int, default=3, help="runs of every cell")
    parser.add_argument("--only", default="", help="cells whose name has this in it, such as 'adult, ε 1'")
    return parser


def measure_cells(
    options: argparse.Namespace,
    cells: Sequence[Cell],
    measure: Callable[[Cell, Bar], Line],
    numbers: Sequence[str],
    digits: int = 3,
) -> None:
    """Measure what is missing, and print the table.

    Args:
        options: parsed by `parser_for`.
        cells: everything that could be measured.
        measure: one line of the table.
        numbers: the columns.
        digits: after the decimal point.
    """
    torch.set_num_threads(1)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    lines: list[Line] = json.loads(options.json.read_text()) if options.json.exists() else []
    done = {(line["data"], line["budget"], line["system"], line["run"]) for line in lines}
    wanted = [cell for cell in cells if options.only in str(cell)]
    missing = [cell for cell in wanted if (cell.data, cell.epsilon, cell.system, cell.run) not in done]
    with progress_bar() as bar:
        task = bar.add_task("cells", total=len(missing), note="")
        for cell in missing:
            bar.update(task, note=str(cell))
            lines.append(measure(cell, bar))
            options.json.write_text(json.dumps(lines, indent=1), encoding="utf-8")
            bar.advance(task)
    print(_table(lines, numbers, digits))


def _table(lines: list[Line], numbers: Sequence[str], digits: int) -> str:
    """Mean and spread over runs, as Markdown."""
    text = ["| data | ε | system | runs | " + " | ".join(numbers) + " |", "|---" * (4 + len(numbers)) + "|"]
    groups: dict[tuple[str, float | None, str], list[Line]] = {}
    for line in lines:
        groups.setdefault((line["data"], line["budget"], line["system"]), []).append(line)
    for (data, budget, system), found in sorted(
        groups.items(), key=lambda item: (item[0][0], str(item[0][1]))
    ):
        values = [_mean([line[name] for line in found if name in line], digits) for name in numbers]
        text.append(f"| {data} | {budget or ''} | {system} | {len(found)} | " + " | ".join(values) + " |")
    return "\n".join(text)


def _mean(values: list[float], digits: int) -> str:
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{spread}"
