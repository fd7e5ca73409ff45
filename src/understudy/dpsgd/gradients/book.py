"""Forward and backward of one batch: both factors of every use of every weight, record by record."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from understudy.dpsgd.gradients.layers import Tape
from understudy.dpsgd.losses import fake_slope, penalty_slope, penalty_weight, record_slopes
from understudy.dpsgd.objectives import Objective

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from understudy.dpsgd.batch import CriticBatch
    from understudy.dpsgd.gradients.layers import Place, WeightedLayer
    from understudy.dpsgd.gradients.walk import Chain
    from understudy.dpsgd.losses import Loss

__all__ = ["Book", "book_of_fakes", "book_of_records", "walk_fakes"]


@dataclass
class Book:
    """All factors of some records: by layer, and by name for small parameters with a derivative per record."""

    records: int
    layers: dict[WeightedLayer, list[Place]] = field(default_factory=dict)
    rows: dict[str, list[Tensor]] = field(default_factory=dict)

    def enter(self, tape: Tape) -> None:
        """Sort what a walk noted by layer and by name; every record has one row in it."""
        for place in tape.places:
            self.layers.setdefault(place.layer, []).append(place)
        for name, rows in tape.rows:
            self.rows.setdefault(name, []).append(rows)

    def pairs(self, layer: WeightedLayer, start: int, stop: int) -> list[tuple[Tensor, Tensor]]:
        """(a, d) of the records start … stop − 1 in each place."""
        return [(place.a[start:stop], place.d[start:stop]) for place in self.layers[layer]]

    def of_persons(self, persons: Tensor, weights: Tensor) -> Book:
        """The factors of whole persons in place of records.

        A person's gradient is the weighted sum of those of its records, so each of these is one more place of it.

        Args:
            persons: for each record the number of its person, in ascending order.
            weights: of each record.
        """
        sizes = torch.bincount(persons)
        turn = torch.arange(len(persons), device=persons.device) - (sizes.cumsum(0) - sizes)[persons]
        grouped = Book(len(sizes))
        for number in range(int(sizes.max()) if len(sizes) else 0):
            rows = (turn == number).nonzero().squeeze(1)
            spread = partial(_spread, persons[rows], len(sizes))
            for layer, places in self.layers.items():
                grouped.layers.setdefault(layer, []).extend(
                    replace(place, a=spread(place.a[rows]), d=spread(_weighted(place.d, weights)[rows]))
                    for place in places
                )
            for name, entries in self.rows.items():
                grouped.rows.setdefault(name, []).extend(
                    spread(_weighted(entry, weights)[rows]) for entry in entries
                )
        return grouped


def _spread(persons: Tensor, people: int, rows: Tensor) -> Tensor:
    """Rows of different persons, each at the number of its person, and zeros for the others."""
    return rows.new_zeros(people, *rows.shape[1:]).index_copy_(0, persons, rows)


def _weighted(rows: Tensor, weights: Tensor) -> Tensor:
    return rows * weights.to(rows.dtype).reshape(-1, *[1] * (rows.dim() - 1))


def book_of_records(chain: Chain, objective: Loss, batch: CriticBatch, *, joint: bool) -> Book:
    """The factors of the records' gradients.

    Args:
        chain: the critic.
        objective: the loss.
        batch: the records, and the fakes that are their partners.
        joint: whether the loss of a record's partner belongs to the record.
    """
    book = Book(batch.real.shape[0])
    if not book.records:
        return book
    tape, values = _walk(chain, partial(record_slopes, objective), batch.real, batch.real_labels)
    book.enter(tape)
    partners = None if batch.fake_values is None else batch.fake_values[batch.partners()]
    if joint:
        chosen, labels = batch.partners(), batch.fake_labels
        labels = None if labels is None else labels[chosen]
        tape, beside = _walk(chain, _fake_slopes(objective), batch.fake[chosen], labels)
        book.enter(tape)
        partners = beside[chain.affine_layers]
    if penalty_weight(objective):
        book.enter(_walk_penalty(chain, objective, batch, values, partners))
    return book


def book_of_fakes(chain: Chain, objective: Objective, fake: Tensor, labels: Tensor | None) -> Book:
    """The factors of the fakes' gradients, each treated like a record."""
    book = Book(fake.shape[0])
    if book.records:
        book.enter(_walk(chain, _fake_slopes(objective), fake, labels)[0])
    return book


def walk_fakes(
    chain: Chain, objective: Objective, fake: Tensor, labels: Tensor | None, weight: float
) -> tuple[Tape, Tensor | None]:
    """What fakes note of weight · loss, and the value of each from which interpolates can start, if there is one."""
    tape, values = _walk(chain, _fake_slopes(objective, weight), fake, labels)
    useful = penalty_weight(objective) and chain.mixes_values
    return tape, values[chain.affine_layers] if useful else None


def _fake_slopes(objective: Loss, weight: float = 1.0) -> Callable[[Tensor, Tensor, Tensor | None], Tensor]:
    assert isinstance(objective, Objective)
    return lambda outputs, _x, _labels: weight * fake_slope(objective, outputs.flatten())


def _walk(
    chain: Chain, slopes: Callable[[Tensor, Tensor, Tensor | None], Tensor], x: Tensor, labels: Tensor | None
) -> tuple[Tape, list[Tensor]]:
    """The tape of the gradients of the rows' losses, by their slopes in the outputs, and the value at each layer."""
    tape = Tape()
    start, chain = chain.begin(x, labels)
    values = chain.values(start)
    chain.note_loss(values, slopes(values[-1], x, labels), tape)
    return tape, values


def _walk_penalty(
    chain: Chain, objective: Loss, batch: CriticBatch, values: list[Tensor], partners: Tensor | None
) -> Tape:
    """The tape of the gradients of the records' penalties.

    Up to the first weight, the values at the interpolates are the interpolates of the values. Before that
    weight the records' own values stand in: a piecewise linear chain asks only for their shape.
    """
    first = chain.affine_layers
    if chain.mixes_values and partners is not None:
        mixed = batch.between(partners, values[first])
        values = values[:first] + chain.values(mixed, first)
    else:
        start, chain = chain.begin(batch.interpolates(), batch.real_labels)
        values = chain.values(start)
    tape = Tape()
    chain.note_penalty(values, partial(penalty_slope, objective), tape)
    return tape
