"""Optimisers from a recipe's values. They act after the noise, so everything here is free post-processing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from understudy.synthesizers.shared.parts import Adam, Optimiser, RmsProp, Sgd

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor, nn

__all__ = ["Stepper"]


class Stepper:
    """A torch optimiser with the recipe's linear schedule, driven by gradients that are handed to it."""

    def __init__(self, module: nn.Module, part: Optimiser) -> None:
        self._parameters = dict(module.named_parameters())
        self._part = part
        self._optimiser = _torch_optimiser(list(self._parameters.values()), part)
        self.taken = 0

    def step(self, gradients: Mapping[str, Tensor]) -> None:
        """Move every parameter along its gradient."""
        for name, parameter in self._parameters.items():
            parameter.grad = gradients[name].to(parameter.dtype)
        for group in self._optimiser.param_groups:
            group["lr"] = scheduled_rate(self._part, self.taken)
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        self.taken += 1

    def state(self) -> dict[str, Tensor]:
        """The optimiser's memory as named tensors."""
        tensors = {"taken": torch.tensor(self.taken)}
        for name, parameter in self._parameters.items():
            for key, value in self._optimiser.state.get(parameter, {}).items():
                if value is not None:
                    tensors[f"{name}/{key}"] = torch.as_tensor(value)
        return tensors

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over a memory that `state` gave; torch keeps the count of steps on the CPU, whatever the device."""
        self.taken = int(tensors["taken"])
        for name, parameter in self._parameters.items():
            memory = {
                key.removeprefix(f"{name}/"): value.to(parameter.device if value.ndim else "cpu", copy=True)
                for key, value in tensors.items()
                if key.startswith(f"{name}/")
            }
            if memory:
                self._optimiser.state[parameter] = memory


def scheduled_rate(part: Optimiser, taken: int) -> float:
    """The learning rate after `taken` steps."""
    if part.final_rate is None or part.decay_steps == 0:
        return part.rate
    progress = min(1.0, taken / part.decay_steps)
    return part.rate + (part.final_rate - part.rate) * progress


def _torch_optimiser(parameters: list[nn.Parameter], part: Optimiser) -> torch.optim.Optimizer:
    match part:
        case Sgd(rate=rate, momentum=momentum):
            return torch.optim.SGD(parameters, lr=rate, momentum=momentum)
        case Adam(rate=rate, beta1=beta1, beta2=beta2):
            return torch.optim.Adam(parameters, lr=rate, betas=(beta1, beta2))
        case RmsProp(rate=rate):
            return torch.optim.RMSprop(parameters, lr=rate)
