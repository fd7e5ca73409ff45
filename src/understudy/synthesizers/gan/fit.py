"""The one training loop: every recipe, private or not, advances through `Trainer.advance`.

Private records enter only as the argument `rows` of `advance`, and leave it only through the noisy gradient that the
engine's step returns. The generator, its fakes and their labels never depend on them in any other way.
"""

from __future__ import annotations

import math
import secrets
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from understudy.door.source import Rows
from understudy.dpsgd.losses import generator_loss
from understudy.dpsgd.postprocess import MovingAverage, clamp_weights, fakes_gradient, spectral_normalise
from understudy.synthesizers.gan.critics import build_critic
from understudy.synthesizers.gan.generators import build_generator, draw_latent
from understudy.synthesizers.gan.schedule import Turns
from understudy.synthesizers.shared.optimisers import Stepper

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import nn

    from understudy.recipes import Recipe
    from understudy.schema import Schema

__all__ = ["GradientSource", "Trainer"]


class GradientSource(Protocol):
    """What turns private records into a gradient for the critic: the engine's private step, or a baseline."""

    def step(
        self, critic: nn.Module, records: Rows, fakes: Rows, public: Rows | None = None
    ) -> Mapping[str, Tensor]:
        """The mean gradient of the critic's loss, noisy if private."""
        ...


class Trainer:
    """The state of a run: two networks, their optimisers, and whose turn it is.

    Args:
        recipe: what to train.
        schema: what a record looks like.
        label_weights: class frequencies of fakes, public or noisy; None without labels.
        seed: for weights, latents and fake labels; None draws one. Nothing private hangs on it.
        device: where both networks are, None for the CPU. Latents are drawn on the CPU, so that a seed means the same
            everywhere.

    `generator_loss` is that of the generator's last step. It looks at fakes only, so it is as public as the critic.
    """

    def __init__(
        self,
        recipe: Recipe,
        schema: Schema,
        label_weights: tuple[float, ...] | None,
        seed: int | None,
        device: torch.device | None = None,
    ) -> None:
        seed = secrets.randbits(63) if seed is None else seed
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.generator = build_generator(recipe, schema).to(device=device)
            self.critic = build_critic(recipe, schema).to(device=device)
        self._recipe = recipe
        self._device = device
        self._source = torch.Generator().manual_seed(seed)
        self._weights = None if label_weights is None else torch.tensor(label_weights, dtype=torch.float64)
        self._critic_stepper = Stepper(self.critic, recipe.critic_optimiser)
        self._generator_stepper = Stepper(self.generator, recipe.generator_optimiser)
        self._turns = Turns(recipe.turns)
        self._average = MovingAverage(self.generator, recipe.averaging)
        self.steps = 0
        self.generator_loss = math.nan

    def advance(
        self,
        gradients: GradientSource,
        rows: Rows,
        public: Rows | None = None,
        *,
        turns: Turns | None = None,
    ) -> None:
        """One critic step on the rows and, when its turn has come, one generator step.

        Args:
            gradients: what turns records into the critic's gradient.
            rows: the records.
            public: declared public records, for rules that look at them.
            turns: who counts the critic's steps; the recipe's own turns if not given.
        """
        with torch.no_grad():
            fakes = Rows(*self._fakes())
        if self._recipe.split_updates:
            self._move_critic(gradients.step(self.critic, rows, fakes.none(), public))
            self._move_critic(
                fakes_gradient(self.critic, self._recipe.objective, fakes, self._recipe.clipping)
            )
        else:
            self._move_critic(gradients.step(self.critic, rows, fakes, public))
        self.steps += 1
        if (turns or self._turns).due():
            self._move_generator()

    def _move_critic(self, gradient: Mapping[str, Tensor]) -> None:
        self._critic_stepper.step(gradient)
        if self._recipe.clamp is not None:
            clamp_weights(self.critic, self._recipe.clamp)
        if self._recipe.spectral_bound is not None:
            spectral_normalise(self.critic, self._recipe.spectral_bound)

    def _fakes(self) -> tuple[Tensor, Tensor | None]:
        """As many fakes as a batch is expected to hold; their number and labels are public."""
        count = self._recipe.batch
        labels = None
        if self._weights is not None:
            drawn = torch.multinomial(self._weights, count, replacement=True, generator=self._source)
            labels = drawn.to(device=self._device)
        latent = draw_latent(self._recipe.latent, count, self._source).to(device=self._device)
        made: Tensor = self.generator(latent, labels)
        return made, labels

    def _move_generator(self) -> None:
        logits = self.critic(*self._fakes())
        loss = generator_loss(self._recipe.objective, logits).mean()
        self.generator_loss = float(loss.detach())
        names, parameters = zip(*self.generator.named_parameters(), strict=True)
        moves = torch.autograd.grad(loss, parameters)
        self._generator_stepper.step(dict(zip(names, moves, strict=True)))
        self._turns.watch(float((logits < 0).double().mean()))
        self._average.update(self.generator, self._generator_stepper.taken)

    def released_weights(self) -> dict[str, Tensor]:
        """The generator's weights (their moving average, where the recipe asks for one), on the CPU."""
        return {name: value.cpu() for name, value in self._average.weights().items()}

    def state(self) -> dict[str, Tensor]:
        """Everything that a resumed run needs, as named tensors."""
        parts: dict[str, Mapping[str, Tensor]] = {
            "critic": self.critic.state_dict(),
            "generator": self.generator.state_dict(),
            "average": self._average.weights(),
            "critic-optimiser": self._critic_stepper.state(),
            "generator-optimiser": self._generator_stepper.state(),
            "run": {
                "steps": torch.tensor(self.steps),
                "source": self._source.get_state(),
                "turns": torch.tensor(
                    [self._turns.since, self._turns.level, self._turns.at_level], dtype=torch.int64
                ),
                "turns-average": torch.tensor(self._turns.average, dtype=torch.float64),
            },
        }
        return {f"{part}:{name}": value for part, named in parts.items() for name, value in named.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state that `state` gave."""
        part = {
            head: {
                name.removeprefix(f"{head}:"): value
                for name, value in state.items()
                if name.startswith(f"{head}:")
            }
            for head in ("critic", "generator", "average", "critic-optimiser", "generator-optimiser", "run")
        }
        self.critic.load_state_dict(part["critic"])
        self.generator.load_state_dict(part["generator"])
        self._average.restore(part["average"])
        self._critic_stepper.restore(part["critic-optimiser"])
        self._generator_stepper.restore(part["generator-optimiser"])
        self.steps = int(part["run"]["steps"])
        self._source.set_state(part["run"]["source"])
        since, level, at_level = (int(value) for value in part["run"]["turns"])
        self._turns.since, self._turns.level, self._turns.at_level = since, level, at_level
        self._turns.average = float(part["run"]["turns-average"])
