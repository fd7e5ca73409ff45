"""Training a generator against a critic that sees private records through noisy gradients.

Private records enter through the door and leave it as noisy gradients only. The generator, its fakes and their labels
never depend on them in any other way.
"""

from __future__ import annotations

import math
import secrets
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from understudy.door.source import Rows
from understudy.dpsgd.losses import generator_loss
from understudy.dpsgd.plain import PlainGradients
from understudy.dpsgd.postprocess import clamp_weights, clipped_together, fakes_gradient
from understudy.dpsgd.step import NoisyGradients
from understudy.privacy.mechanisms import Charge, SubsampledGaussian
from understudy.synthesizers.gan.critics import build_critic
from understudy.synthesizers.gan.generators import build_generator
from understudy.synthesizers.gan.recipe import TRAINING
from understudy.synthesizers.protocol import Losses
from understudy.synthesizers.shared.averaging import MovingAverage
from understudy.synthesizers.shared.beginning import label_weights, row_count
from understudy.synthesizers.shared.free_fitter import parts_of
from understudy.synthesizers.shared.latents import draw_latent
from understudy.synthesizers.shared.optimisers import Stepper

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from understudy.door.door import Door
    from understudy.schema import Schema
    from understudy.synthesizers.gan.parts import PublicWarmStart
    from understudy.synthesizers.gan.recipe import GanRecipe

__all__ = ["GanFitter"]

_WARM_START = "warm start"


class GanFitter:
    """The state of a run: two networks, their optimisers, and whose turn it is.

    Args:
        recipe: what to train.
        schema: what a record looks like.
        seed: for weights, latents and fake labels; None draws one. Nothing private hangs on it.
        device: where both networks are. Latents are drawn on the CPU, so that a seed means the same everywhere.
    """

    def __init__(self, recipe: GanRecipe, schema: Schema, seed: int | None, device: torch.device) -> None:
        seed = secrets.randbits(63) if seed is None else seed
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.generator = build_generator(recipe, schema).to(device=device)
            self.critic = build_critic(recipe, schema).to(device=device)
        self._recipe, self._schema, self._device = recipe, schema, device
        self._source = torch.Generator().manual_seed(seed)
        self._critic_stepper = Stepper(self.critic, recipe.critic_optimiser)
        self._generator_stepper = Stepper(self.generator, recipe.generator_optimiser)
        self._average = MovingAverage(self.generator, recipe.averaging)
        self._gradients: NoisyGradients | PlainGradients | None = None
        self._divisor, self._bound = math.nan, 0.0
        self._since, self._generator_loss = 0, math.nan
        self.label_weights: tuple[float, ...] | None = None
        self.steps = 0

    @property
    def losses(self) -> Losses | None:
        """Of the last step, in runs that are NOT PRIVATE only."""
        loss = None if self._gradients is None else self._gradients.loss
        return None if loss is None else Losses(loss, self._generator_loss)

    def begin(self, door: Door, public: Rows | None, tick: Callable[[], None]) -> None:
        """Publish the row count and the class counts that are needed, and start warm if the recipe says so."""
        rate = door.sampled(TRAINING).sampling_rate
        self._divisor = max(1.0, rate * row_count(door)) if door.rows is None else rate * door.rows
        self.label_weights = label_weights(door, self._schema)
        if self._recipe.warm_start is not None and public is not None:
            self._start_warm(door, self._recipe.warm_start, public, tick)

    def _start_warm(self, door: Door, part: PublicWarmStart, public: Rows, tick: Callable[[], None]) -> None:
        """Train both networks on public rows, without noise: nothing private is read."""
        rate = min(1.0, part.batch / len(public))
        charges = (Charge(_WARM_START, SubsampledGaussian(rate, 0.0, part.steps)),)
        open_door = door.to_public(public, charges)
        source = PlainGradients(_WARM_START, self._recipe.objective)
        for _ in range(part.steps):
            self._move(source, open_door, None, part.critic_steps or self._recipe.critic_steps)
            tick()
        self.steps = 0

    def advance(self, door: Door, public: Rows | None) -> None:
        """One critic step and, when its turn has come, one generator step."""
        if self._gradients is None:
            self._gradients = self._source_of_gradients(door)
        self._move(self._gradients, door, public, self._recipe.critic_steps)

    def _source_of_gradients(self, door: Door) -> NoisyGradients | PlainGradients:
        if not door.private:
            return PlainGradients(TRAINING, self._recipe.objective)
        clipping, objective = self._recipe.clipping, self._recipe.objective
        return NoisyGradients(TRAINING, clipping, objective, self._divisor, bound=self._bound or None)

    def _move(
        self, gradients: NoisyGradients | PlainGradients, door: Door, public: Rows | None, turns: int
    ) -> None:
        with torch.no_grad():
            fakes = Rows(*self._fakes())
        if self._recipe.split_updates:
            self._move_critic(gradients.step(door, self.critic, fakes.none(), public))
            self._move_critic(
                fakes_gradient(self.critic, self._recipe.objective, fakes, self._recipe.clipping)
            )
        else:
            self._move_critic(gradients.step(door, self.critic, fakes, public))
        self.steps += 1
        self._since += 1
        if self._since >= turns:
            self._since = 0
            self._move_generator()

    def _move_critic(self, gradient: Mapping[str, Tensor]) -> None:
        self._critic_stepper.step(gradient)
        if self._recipe.clamp is not None:
            clamp_weights(self.critic, self._recipe.clamp)

    def _fakes(self) -> tuple[Tensor, Tensor | None]:
        """As many fakes as a batch is expected to hold; their number and labels are public."""
        count, labels = self._recipe.batch, None
        if self.label_weights is not None:
            weights = torch.tensor(self.label_weights, dtype=torch.float64)
            drawn = torch.multinomial(weights, count, replacement=True, generator=self._source)
            labels = drawn.to(device=self._device)
        latent = draw_latent(self._recipe.latent, count, self._source).to(device=self._device)
        made: Tensor = self.generator(latent, labels)
        return made, labels

    def _move_generator(self) -> None:
        loss = generator_loss(self._recipe.objective, self.critic(*self._fakes())).mean()
        self._generator_loss = float(loss.detach())
        names, parameters = zip(*self.generator.named_parameters(), strict=True)
        moves = torch.autograd.grad(loss, parameters)
        if self._recipe.generator_clip is not None:
            moves = clipped_together(moves, self._recipe.generator_clip)
        self._generator_stepper.step(dict(zip(names, moves, strict=True)))
        self._average.update(self.generator, self._generator_stepper.taken)

    def released(self) -> dict[str, Tensor]:
        """The generator's weights (their moving average, where the recipe asks for one), on the CPU."""
        return {f"generator.{name}": value.cpu() for name, value in self._average.weights().items()}

    def state(self) -> dict[str, Tensor]:
        """Everything that a resumed run needs, as named tensors."""
        bound = self._bound if self._gradients is None else self._gradients.bound or 0.0
        parts: dict[str, Mapping[str, Tensor]] = {
            "critic": self.critic.state_dict(),
            "generator": self.generator.state_dict(),
            "average": self._average.weights(),
            "critic-optimiser": self._critic_stepper.state(),
            "generator-optimiser": self._generator_stepper.state(),
            "run": {
                "steps": torch.tensor([self.steps, self._since]),
                "source": self._source.get_state(),
                "numbers": torch.tensor([self._divisor, bound], dtype=torch.float64),
                "label-weights": torch.tensor(self.label_weights or (), dtype=torch.float64),
            },
        }
        return {f"{part}:{name}": value for part, named in parts.items() for name, value in named.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` gave."""
        part = parts_of(state)
        self.critic.load_state_dict(part["critic"])
        self.generator.load_state_dict(part["generator"])
        self._average.restore(part["average"])
        self._critic_stepper.restore(part["critic-optimiser"])
        self._generator_stepper.restore(part["generator-optimiser"])
        run = part["run"]
        self.steps, self._since = run["steps"].tolist()
        self._divisor, self._bound = run["numbers"].tolist()
        self._source.set_state(run["source"])
        self.label_weights = tuple(run["label-weights"].tolist()) or None
        self._gradients = None
