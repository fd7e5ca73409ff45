"""The adversary: a critic of random features that learns from records through noisy gradients.

It scores the features φ(x) of an image (norm 1, as those of the mean embedding) linearly, with weights of their own for
each class; of an image of some class the score of that class counts (a projection critic). Records should have high
scores and fakes low ones, by the logistic loss. Each step publishes the sum over *all* records of gradients that are
clipped to C, by the same query that the papers' critics use; there is no sampling, hence no amplification to account
for. The gradient on fakes, which are public, is added after the noise. Everything else is post-processing.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from understudy.dpsgd.clipping import GlobalClip
from understudy.dpsgd.critics import Predictor
from understudy.dpsgd.step import NO_FAKES, ClippedGradients
from understudy.synthesizers.embedding.recipe import CRITIC
from understudy.synthesizers.shared.optimisers import Stepper
from understudy.synthesizers.shared.parts import Sgd

if TYPE_CHECKING:
    from collections.abc import Mapping

    from understudy.door.door import Door
    from understudy.synthesizers.embedding.recipe import FeatureCritic

__all__ = ["Adversary"]

_ROWS_AT_ONCE = 4000
_LAST_RATE = 0.02
"""The part of its rate that the critic keeps at its last step; the generator's falls, too, and could not keep up."""


class Adversary:
    """The critic, its optimiser, and how far it is.

    Args:
        part: the recipe's part.
        classes: how many scores.
        device: where the generator learns; the critic itself learns on the CPU.
    """

    def __init__(self, part: FeatureCritic, classes: int, device: torch.device) -> None:
        self._part, self._device = part, device
        scores = nn.utils.skip_init(nn.Linear, part.features, classes, bias=False)  # type: ignore[no-untyped-call]
        nn.init.zeros_(scores.weight)
        self._critic = Predictor(nn.Sequential(scores))
        falling = Sgd(part.rate, part.rate * _LAST_RATE, decay_steps=part.steps, momentum=part.momentum)
        self._stepper = Stepper(self._critic, falling)
        self._judge = copy.deepcopy(self._critic).to(device=device)

    @property
    def taken(self) -> int:
        """How many steps it has taken."""
        return self._stepper.taken

    def due(self, step: int, steps: int) -> bool:
        """Whether one of its steps comes before this one of the generator, of so many."""
        first = int(self._part.start * steps)
        passed = (step + 1 - first) / (steps - first)
        return self.taken < self._part.steps * passed

    def learn(self, door: Door, count: float, fakes: Tensor, labels: Tensor) -> None:
        """One step.

        Args:
            door: to the features of records with labels.
            count: the public or noisy number of records.
            fakes: the features of generated images.
            labels: their classes.
        """
        bounded, no_fakes = GlobalClip(self._part.bound), NO_FAKES.all(next(self._critic.parameters()))
        query = ClippedGradients(self._critic, _loss_of_record, bounded, no_fakes, rows_at_once=_ROWS_AT_ONCE)
        (noisy,) = door.publish(CRITIC, query).values
        ((name, weights),) = self._critic.named_parameters()
        losses = functional.softplus(_of_class(self._critic(fakes.cpu()), labels.cpu()))
        (free,) = torch.autograd.grad(losses.mean(), weights)
        self._stepper.step({name: noisy / count + free + self._part.decay * weights.detach()})
        self._judge.load_state_dict(self._critic.state_dict())

    def verdict(self, features: Tensor, labels: Tensor) -> Tensor:
        """How far generated images are from passing for records, weighted: a part of the generator's loss."""
        scores = _of_class(self._judge(features), labels)
        return self._part.weight * functional.softplus(-scores).mean()

    def state(self) -> dict[str, Mapping[str, Tensor]]:
        """What a resumed run needs, by part."""
        return {"critic": self._critic.state_dict(), "critic-optimiser": self._stepper.state()}

    def restore(self, part: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Go on from what `state` gave."""
        self._critic.load_state_dict(dict(part["critic"]))
        self._judge.load_state_dict(dict(part["critic"]))
        self._stepper.restore(part["critic-optimiser"])


def _of_class(scores: Tensor, labels: Tensor) -> Tensor:
    return scores.gather(1, labels.unsqueeze(1)).squeeze(1)


def _loss_of_record(scores: Tensor, x: Tensor, label: Tensor | None) -> Tensor:
    """The logistic loss of one record; of no class, it has no slope."""
    del x
    assert label is not None
    own = torch.arange(scores.shape[0], device=scores.device) == label
    return functional.softplus(-(scores * own).sum())
