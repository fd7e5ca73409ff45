"""What a call of `fit` in Python asks for: a plan, or a schema and a budget from which one is made."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from understudy.errors import CallError, PlanError
from understudy.planning import Plan, plan
from understudy.schema import CodeSchema, ImageSchema, TableSchema, schema_of

if TYPE_CHECKING:
    from pathlib import Path

    from understudy.schema import Schema
    from understudy.synthesizers.protocol import Recipe

__all__ = ["planned", "refuse_useless"]

_DELTA = 1e-5


def planned(
    data: object,
    given: Plan | Schema | str | Path,
    *,
    epsilon: float | None,
    delta: float | None,
    rows: int | None,
    recipe: Recipe | str | None,
    steps: int | None,
    person: str | tuple[str, ...] | None,
    max_rows_per_person: int | None,
) -> Plan:
    """The plan that was given, or one made from a schema and the other arguments of `fit`.

    Raises:
        CallError: data and schema are exchanged, no budget is given, or a plan comes with arguments that made it.
    """
    if isinstance(data, Plan | TableSchema | ImageSchema | CodeSchema):
        raise CallError("fit takes the data first: understudy.fit(data, schema, epsilon=1).")
    unit: dict[str, Any] = {"person": person, "max_rows_per_person": max_rows_per_person}
    unit = {name: value for name, value in unit.items() if value is not None}
    options = {"epsilon": epsilon, "delta": delta, "rows": rows, "recipe": recipe, "steps": steps} | unit
    if isinstance(given, Plan):
        extra = [name for name, value in options.items() if value is not None]
        if extra:
            raise CallError(
                f"{', '.join(extra)} belong to the plan, which is made already: give them to understudy.plan, or fit "
                "with a schema, as in understudy.fit(data, schema, epsilon=1)."
            )
        return given
    schema = replace(schema_of(given), **unit)
    if epsilon is None:
        raise CallError("say how much may be spent: understudy.fit(data, schema, epsilon=1).")
    return plan(
        schema,
        epsilon=epsilon,
        delta=_DELTA if delta is None else delta,
        rows=rows,
        recipe=recipe,
        steps=steps,
    )


def refuse_useless(made: Plan) -> None:
    """Refuse to spend a budget that buys nothing, as far as public facts tell.

    Raises:
        PlanError: with the reason.
    """
    prospect = made.prospect
    if prospect is not None and prospect.useless is not None:
        raise PlanError(
            f"{prospect.useless}. Nothing was spent. Raise ε or take fewer columns; --anyway (anyway=True) spends it "
            "all the same."
        )
