"""The same gradients by Opacus: hooks, ghost clipping, and what it gives for a gradient penalty."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import torch
from opacus.grad_sample import GradSampleModule
from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import (
    GradSampleModuleFastGradientClipping,
)
from opacus.optimizers import DPOptimizer
from torch import nn

from understudy.dpsgd import Critic, CriticBatch, clipped_sum
from understudy.dpsgd.clipping import GlobalClip
from understudy.dpsgd.critics import condition
from understudy.dpsgd.losses import fake_loss, real_loss
from understudy.dpsgd.objectives import WassersteinPenalty

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from benchmarks.engine_cases import Case

__all__ = ["ghost_step", "hook_step", "optimiser_step", "penalty_error"]


def _inputs(case: Case, batch: CriticBatch) -> Tensor:
    """What the body of the critic receives, records first."""
    real = condition(case.conditioning, batch.real, batch.real_labels)
    return torch.cat([real, condition(case.conditioning, batch.fake, batch.fake_labels)])


def _losses(case: Case, logits: Tensor) -> Tensor:
    """The loss of each row, records first."""
    half = len(logits) - case.batch
    return torch.cat([real_loss(case.objective, logits[:half]), fake_loss(case.objective, logits[half:])])


def hook_step(case: Case, batch: CriticBatch) -> Callable[[], list[Tensor]]:
    """Per-sample gradients of reals and fakes by hooks, each clipped, and summed."""
    module = GradSampleModule(case.critic().body, loss_reduction="sum")
    params = list(module.parameters())

    def step() -> list[Tensor]:
        module.zero_grad()
        _losses(case, module(_inputs(case, batch)).squeeze(1)).sum().backward()  # type: ignore[no-untyped-call]
        samples = [p.grad_sample for p in params]
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in samples]).norm(dim=0)
        factors = (1.0 / norms).clamp(max=1.0)
        return [torch.einsum("i,i...", factors, g) for g in samples]

    return step


def optimiser_step(case: Case, batch: CriticBatch, backwards: int) -> Callable[[], None]:
    """A whole step by Opacus' optimiser, its ordinary noise included, in the two manners in which GANs are written.

    Args:
        case: which critic.
        batch: records and fakes, equally many.
        backwards: 1 adds the losses of records and fakes first, as in Opacus' own example of a GAN, which clips each
            record together with a fake; 2 goes back once for records and once for fakes.
    """
    module = GradSampleModule(case.critic().body, loss_reduction="sum")
    optimiser = DPOptimizer(
        torch.optim.SGD(module.parameters(), lr=0.0),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        expected_batch_size=case.batch,
        loss_reduction="sum",
    )

    def step() -> None:
        optimiser.zero_grad()
        real = condition(case.conditioning, batch.real, batch.real_labels)
        fake = condition(case.conditioning, batch.fake, batch.fake_labels)
        if backwards == 1:
            on_real, on_fake = module(real).squeeze(1), module(fake).squeeze(1)
            loss = real_loss(case.objective, on_real).sum() + fake_loss(case.objective, on_fake).sum()
            loss.backward()  # type: ignore[no-untyped-call]
        else:
            real_loss(case.objective, module(real).squeeze(1)).sum().backward()  # type: ignore[no-untyped-call]
            fake_loss(case.objective, module(fake).squeeze(1)).sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return step


def ghost_step(case: Case, batch: CriticBatch) -> Callable[[], list[Tensor | None]]:
    """Ghost clipping: norms from one backward, the clipped sum from a second one."""
    module = GradSampleModuleFastGradientClipping(
        case.critic().body, max_grad_norm=1.0, use_ghost_clipping=True, loss_reduction="sum"
    )
    params = list(module.parameters())

    def step() -> list[Tensor | None]:
        module.zero_grad()
        module.enable_hooks()
        losses = _losses(case, module(_inputs(case, batch)).squeeze(1))
        losses.sum().backward(retain_graph=True)  # type: ignore[no-untyped-call]
        factors = module.get_clipping_coef()
        module.zero_grad()
        module.disable_hooks()
        (losses * factors).sum().backward()
        return [p.grad for p in params]

    return step


def penalty_error() -> float:
    """The relative error of Opacus' gradients for WGAN-GP with the usual workaround.

    Natural code raises inside Opacus. With the hooks disabled around the inner gradient it runs, and this is how
    far the sum of what its hooks gathered is from our exact gradient (at a bound so large that nothing is
    clipped). Where a layer is still waiting for a backward that never comes, its unfinished gradient counts.
    """
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 1))
    real, fake, mixing = torch.randn(8, 10), torch.randn(8, 10), torch.rand(8)
    objective = WassersteinPenalty()
    ours = clipped_sum(
        Critic(body),
        objective,
        CriticBatch(real, None, fake[:8], mixing=mixing),
        GlobalClip(1e6),
    ).gradients
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = GradSampleModule(body, loss_reduction="sum")
        point = (mixing[:, None] * real + (1 - mixing[:, None]) * fake).requires_grad_()
        outputs = module(point).sum()
        module.disable_hooks()
        (slope,) = torch.autograd.grad(outputs, point, create_graph=True)
        module.enable_hooks()
        loss = -module(real).sum() + objective.weight * (slope.norm(dim=1) - 1).square().sum()
        loss.backward()
    found = {
        name.removeprefix("_module."): (
            p._current_grad_sample if p.grad_sample is None else p.grad_sample
        ).sum(0)
        for name, p in module.named_parameters()
    }
    difference = sum(float((found[n.removeprefix("body.")] - g).square().sum()) for n, g in ours.items())
    return math.sqrt(difference / sum(float(g.square().sum()) for g in ours.values()))
