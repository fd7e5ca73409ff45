"""Code sets by noisy counts: the recipe, as a value without torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from understudy.errors import RecipeError
from understudy.schema import CodeSchema, unit_words
from understudy.synthesizers.prospect import Answer, Prospect, Reach, noises, rows_in_classes
from understudy.synthesizers.protocol import Asked, RecipeDefaults, Share
from understudy.synthesizers.shared.beginning import asked_labels
from understudy.synthesizers.shared.parts import (
    LABELS,
    Adam,
    Optimiser,
    asked_rows,
    check_positive,
    check_share,
    shares,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from understudy.privacy.mechanisms import Charge
    from understudy.schema import Schema
    from understudy.synthesizers.codes.fit import CodesFitter
    from understudy.synthesizers.codes.model import CodeModel

__all__ = ["CODE_COUNTS", "CODE_PAIRS", "LENGTHS", "REPEATS", "UNDERSTUDY_CODES", "CodesRecipe"]

LENGTHS, CODE_COUNTS, CODE_PAIRS, REPEATS = (
    "codes per record",
    "code counts",
    "code pairs",
    "code repetitions",
)


_LEAST = 0.05
"""The share of the budget below which pairs are not asked for."""


@dataclass(frozen=True, kw_only=True)
class CodesRecipe(RecipeDefaults):
    """A mixture of rates fitted to noisy counts: codes per record, codes, codes in pairs, repetitions.

    The influence of a record is bounded by how many codes it has, not by how many there are.

    Args:
        name: how the command line calls it.
        summary: one line for the table of recipes.
        source: where it is described.
        components: equally likely parts of the mixture of each class.
        optimiser: how the mixture follows the counts; its rate falls over all steps.
        averaging: decay of the mixture's moving average, or None.
        steps: of the optimiser, which are free.
        longest: records with more different codes count as having this many.
        covered: the share of records that count in full; longer ones weigh less.
        frequent: how many of the most frequent codes have rates of their own; at most these are compared in pairs.
        quiet: pairs take at most this times the records over the noise (the public number of records, σ of the whole
            budget) of the budget; if that is below a twentieth they are not asked for.
        heard: how many times the noise of a length the records should be: with few of them, lengths take more of the
            budget, up to half.
        repeats: the length to which a record's vector of repetitions is shortened; for counted codes only.
        class_share: the part of the budget (of 1/σ²) that the class counts take.
        length_share: the part that the counts of lengths take.
        code_share: the part that the counts of codes take.
        pair_share: the part that pairs take; 0 leaves them out.
        repeat_share: the part that repetitions take where codes are counted.
    """

    kind: ClassVar[str] = "codes"
    name: str
    summary: str
    source: str
    components: int = 64
    optimiser: Optimiser = field(default_factory=Adam)
    averaging: float | None = None
    steps: int = 400
    longest: int = 64
    covered: float = 0.99
    frequent: int = 256
    quiet: float = 3e-4
    heard: float = 110.0
    repeats: float = 4.0
    class_share: float = 0.05
    length_share: float = 0.05
    code_share: float = 0.4
    pair_share: float = 0.5
    repeat_share: float = 0.1

    def __post_init__(self) -> None:
        check_positive(self.name, components=self.components, steps=self.steps, longest=self.longest)
        check_positive(self.name, repeats=self.repeats, quiet=self.quiet, heard=self.heard)
        for what in ("class", "length", "code", "repeat"):
            check_share(f"{what} counts", getattr(self, f"{what}_share"))
        check_share("code pairs", self.pair_share, optional=True)
        if self.frequent < 2:
            raise RecipeError(f"recipe {self.name!r} needs at least two codes in pairs, got {self.frequent}.")
        if not 0 < self.covered <= 1:
            raise RecipeError(f"the share of covered records must lie in (0, 1], got {self.covered}.")

    def refuses(self, schema: Schema) -> str | None:
        """Anything but codes."""
        if isinstance(schema, CodeSchema):
            return None
        return (
            f"recipe {self.name!r} makes codes, not {schema.kind}. The recipe understudy chooses by the data."
        )

    def releases(self, schema: Schema | None, rows: int | None) -> tuple[Asked, ...]:
        """Class counts, lengths, codes, pairs of codes, repetitions."""
        codes = schema if isinstance(schema, CodeSchema) else None
        paired, counted = codes is None or len(codes.codes) > 1, codes is None or codes.max_count > 1
        return (
            *asked_rows(rows),
            *asked_labels(schema, Share(LABELS, self.class_share)),
            *shares(
                Share(LENGTHS, self.length_share),
                Share(CODE_COUNTS, self.code_share),
                Share(CODE_PAIRS, self.pair_share if paired else 0.0),
                Share(REPEATS, self.repeat_share if counted else 0.0),
            ),
        )

    def settled(self, charges: Sequence[Charge], rows: int | None) -> CodesRecipe:
        """The recipe for so few records: more of the budget for lengths, and no pairs if noise would drown them."""
        sigmas = noises(charges).values()
        if rows is None or not sigmas or min(sigmas) == 0:
            return self
        whole = sum(sigma**-2 for sigma in sigmas) ** -0.5
        pairs = min(self.pair_share, self.quiet * rows / whole)
        chosen = (
            replace(self, pair_share=pairs)
            if pairs >= _LEAST
            else replace(self, pair_share=0.0, components=1)
        )
        part = min(0.5, (self.heard * whole / rows) ** 2)
        wanted = (chosen.code_share + chosen.pair_share) * part / (1 - part)
        return replace(chosen, length_share=max(self.length_share, round(wanted, 3)))

    def prospect(self, schema: Schema, charges: Sequence[Charge], rows: int | None) -> Prospect | None:
        """The noise of codes and pairs, for the longest records that may count."""
        if not isinstance(schema, CodeSchema):
            return None
        unit = unit_words(schema).many
        classes, most = len(schema.label_classes or ("all",)), min(self.longest, len(schema.codes))
        each = {
            LABELS: ("class", 1.0),
            LENGTHS: ("number of codes", 1.0),
            CODE_COUNTS: (f"code at most, if records have up to {most}", math.sqrt(most)),
            CODE_PAIRS: ("pair of codes at most", math.sqrt(math.comb(most, 2))),
        }
        held, sigma, answers = None if rows is None else rows / classes, noises(charges), []
        for purpose in (one for one in each if one in sigma):
            what, sensitivity = each[purpose]
            noise = sigma[purpose] * sensitivity
            reach = Reach.UNKNOWN if held is None else Reach.FAINT if noise < held else Reach.LOST
            answers.append(Answer(purpose, what, noise, None, reach, unit))
        useless = None
        if held is not None and sigma[CODE_COUNTS] > held:
            useless = (
                f"noise of ± {sigma[CODE_COUNTS]:,.0f} {unit} or more drowns even a code that everybody has: "
                f"{rows:,} are too few for this budget"
            )
        advice = self._advice(schema, sigma, rows, unit)
        return Prospect(rows_in_classes(rows, classes, unit), tuple(answers), advice, useless)

    def _advice(
        self, schema: CodeSchema, sigma: dict[str, float], rows: int | None, unit: str
    ) -> tuple[str, ...]:
        """What is too few or too many for the noise, from public facts."""
        rare = 1.5 * 2 * sigma[CODE_COUNTS]
        found = []
        if rows is not None and CODE_PAIRS not in sigma and len(schema.codes) > 1:
            whole = sum(one**-2 for one in sigma.values()) ** -0.5
            found.append(
                f"about {_LEAST * whole / self.quiet:,.0f} {unit} or as much more ε: with {rows:,} no pairs are asked "
                "for, and codes go together as chance has it"
            )
        if rows is not None and rare * len(schema.codes) > 8 * rows:
            found.append(
                f"fewer codes, such as categories: with four codes in a record, a code that fewer than {rare:,.0f} "
                f"{unit} have is mostly lost, and {len(schema.codes):,} codes of {rows:,} {unit} are mostly rarer"
            )
        if not schema.levels and len(schema.codes) > self.frequent:
            found.append(
                'tree = "icd-9" or "icd-10" or [[blocks]] in the schema: rare codes learn from their block'
            )
        return tuple(found)

    def fitter(self, schema: Schema, *, seed: int | None, device: torch.device) -> CodesFitter:
        """The free training towards the published counts, always on the CPU: it takes seconds."""
        from understudy.synthesizers.codes.fit import CodesFitter
        from understudy.synthesizers.shared.devices import on_the_cpu

        return CodesFitter(self, schema, seed, on_the_cpu(self.name, device))

    @property
    def draws_by_network(self) -> bool:
        """No: the model draws by itself."""
        return False

    def model(self, schema: Schema) -> CodeModel:
        """The mixture."""
        from understudy.synthesizers.codes.model import build_code_model

        return build_code_model(self, schema)


UNDERSTUDY_CODES = CodesRecipe(
    name="understudy-codes",
    summary="mixture fitted to noisy counts of codes and of pairs of codes",
    source="Understudy, docs/codes.md",
    optimiser=Adam(rate=0.05, final_rate=1e-3, beta1=0.9, beta2=0.99),
)
