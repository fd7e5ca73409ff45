"""`Synthesizer`: `fit` and `sample` with the manners of scikit-learn, which is not imported."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Self

from understudy.calling import explained
from understudy.errors import CallError

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from understudy.records.images import Images
    from understudy.release.release import Release
    from understudy.schema import Schema
    from understudy.synthesizers.protocol import Recipe

__all__ = ["Synthesizer"]


class Synthesizer:
    """A generator in the making: parameters first, then `fit`, then `sample`.

    What is given is kept as it is, so that `get_params`, `set_params` and `sklearn.base.clone` work; nothing is checked
    before `fit`. Every call of `fit` spends the budget anew.

    Args:
        schema: the public description of the data, or the path of its file.
        epsilon: the budget's ε.
        delta: the budget's δ; 1e-5 if left out.
        rows: the number of records if it is PUBLIC; left out, it is estimated with noise.
        recipe: a recipe or the name of one.
        steps: how many steps, instead of the recipe's.
        person: the column (or columns) that tells persons apart, if one may have several rows; instead of the schema's.
        max_rows_per_person: how many rows of a person take part at most.
        out: the folder in which the release is saved; its ledger stands beside it.
        ledger: the ledger file to charge, together with `dataset`.
        dataset: the name that the data set is registered by in the ledger.
        anyway: go on although the noise will drown what such a budget asks for.

    Attributes:
        release_: what `fit` made.
    """

    release_: Release

    @explained("Synthesizer(schema, epsilon=1)")
    def __init__(
        self,
        schema: Schema | str | Path,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        rows: int | None = None,
        recipe: Recipe | str | None = None,
        steps: int | None = None,
        person: str | tuple[str, ...] | None = None,
        max_rows_per_person: int | None = None,
        out: str | Path | None = None,
        ledger: str | Path | None = None,
        dataset: str | None = None,
        anyway: bool = False,
    ) -> None:
        self.schema, self.epsilon, self.delta, self.rows = schema, epsilon, delta, rows
        self.recipe, self.steps, self.out = recipe, steps, out
        self.person, self.max_rows_per_person = person, max_rows_per_person
        self.ledger, self.dataset, self.anyway = ledger, dataset, anyway

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name."""
        del deep  # none of them has parameters of its own
        return {name: getattr(self, name) for name in list(inspect.signature(type(self)).parameters)}

    def set_params(self, **params: Any) -> Self:
        """Change parameters; CallError for one that does not exist."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise CallError(f"Synthesizer has no parameter {name!r}; it has {', '.join(known)}.")
            setattr(self, name, value)
        return self

    def fit(self, data: object, y: None = None) -> Self:
        """Spend the budget on these private records; see `understudy.fit`.

        Args:
            data: whatever `understudy.fit` takes.
            y: not used; the schema says which column is the label.
        """
        del y
        from understudy.run.fit import fit

        options = self.get_params()
        self.release_ = fit(data, options.pop("schema"), **options)
        return self

    def sample(
        self, n_rows: float = 1000, *, seed: int | None = None, **options: Any
    ) -> pd.DataFrame | Images:
        """Draw synthetic records; other options are those of `understudy.sample`.

        Raises:
            CallError: `fit` was not called.
        """
        if not hasattr(self, "release_"):
            raise CallError("call fit first: Synthesizer(schema, epsilon=1).fit(data).sample(1000).")
        return self.release_.sample(n_rows, seed=seed, **options)

    def __repr__(self) -> str:
        given = [
            f"{name}={value!r}" for name, value in self.get_params().items() if value not in (None, False)
        ]
        return f"Synthesizer({', '.join(given)})"
