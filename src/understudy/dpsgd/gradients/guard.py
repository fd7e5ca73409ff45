"""Refuse critics in which one record's output depends on the other records of the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn
from torch.nn.utils import parametrize

from understudy.errors import UnsupportedModel

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["refuse_unsafe_layers", "trained_parameters"]


def refuse_unsafe_layers(critic: nn.Module) -> None:
    """Raise `UnsupportedModel` if a layer mixes records or keeps statistics of them."""
    for module in critic.modules():
        if not _suspicious(module):
            continue
        name = next(name for name, other in critic.named_modules() if other is module)
        where = f"layer '{name}' ({type(module).__name__})" if name else type(module).__name__
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            raise UnsupportedModel(
                f"{where} normalises a record by the other records of its batch, so one record's gradient is "
                "not its own and no clipping bounds its influence. In the critic use GroupNorm, LayerNorm or "
                "no normalisation; batch norm in the generator is fine."
            )
        if isinstance(module, nn.modules.instancenorm._InstanceNorm) and module.track_running_stats:
            raise UnsupportedModel(
                f"{where} keeps running statistics of private records outside the noised gradient. Build it "
                "with track_running_stats=False, or use GroupNorm."
            )
        if parametrize.is_parametrized(module) or hasattr(module, "weight_u"):
            raise UnsupportedModel(
                f"{where} recomputes its weight at every forward pass, out of sight of the clipping. Use a "
                "plain layer."
            )


def _suspicious(module: nn.Module) -> bool:
    """A quick first look, so that the names are only searched when there is something to say."""
    return (
        isinstance(module, (nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm))
        or "parametrizations" in module._modules
        or "weight_u" in module._buffers
    )


def trained_parameters(critic: nn.Module) -> dict[str, Tensor]:
    """The parameters that get gradients, by name; tied parameters appear once."""
    found = {name: p.detach() for name, p in critic.named_parameters() if p.requires_grad}
    if not found:
        raise UnsupportedModel("the critic has no parameter with requires_grad=True: nothing to train.")
    return found
