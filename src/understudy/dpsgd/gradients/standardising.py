"""Layer norm and group norm, as layers of the walk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from understudy.dpsgd.gradients.layers import detached

if TYPE_CHECKING:
    from torch import Tensor

    from understudy.dpsgd.gradients.layers import Tape

__all__ = ["NormLayer"]


class NormLayer:
    """Layer norm or group norm: each row by its own mean and variance, then scale and shift."""

    piecewise_linear = False

    def __init__(self, module: nn.LayerNorm | nn.GroupNorm, names: tuple[str | None, str | None]) -> None:
        self.eps = module.eps
        self.groups = module.num_groups if isinstance(module, nn.GroupNorm) else None
        self.axes = 0 if isinstance(module, nn.GroupNorm) else len(module.normalized_shape)
        self.scale = detached(module.weight)
        self.shift = detached(module.bias)
        self.scale_name, self.shift_name = names
        self.trained = names != (None, None)

    def _grouped(self, x: Tensor) -> Tensor:
        """A view in which the last axis is what is normalised together."""
        if self.groups is not None:
            return x.reshape(x.shape[0], self.groups, -1)
        return x.reshape(*x.shape[: x.dim() - self.axes], -1)

    def _standard(self, x: Tensor) -> tuple[Tensor, Tensor]:
        grouped = self._grouped(x)
        centred = grouped - grouped.mean(-1, keepdim=True)
        scale = (centred.square().mean(-1, keepdim=True) + self.eps).rsqrt()
        return centred * scale, scale

    def _for_rows(self, parameter: Tensor, like: Tensor) -> Tensor:
        """The parameter, or one of it for each row, shaped to multiply `like`."""
        rows = parameter.shape[0] if parameter.dim() > max(self.axes, 1) else 1
        if self.groups is not None:
            return parameter.reshape(rows, -1, *[1] * (like.dim() - 2))
        middle = [1] * (like.dim() - 1 - self.axes)
        return parameter.reshape(rows, *middle, *parameter.shape[parameter.dim() - self.axes :])

    def _row_sums(self, x: Tensor) -> Tensor:
        """Of each row the sum over everything that shares one entry of the parameter."""
        if self.groups is not None:
            return x.flatten(2).sum(2) if x.dim() > 2 else x
        return x.reshape(x.shape[0], -1, *x.shape[x.dim() - self.axes :]).sum(1)

    def forward(self, x: Tensor) -> Tensor:
        """As in `Layer`."""
        y = self._standard(x)[0].reshape(x.shape)
        y = y if self.scale is None else y * self._for_rows(self.scale, y)
        return y if self.shift is None else y + self._for_rows(self.shift, y)

    def note(self, x: Tensor, u: Tensor, tape: Tape) -> None:
        """As in `Layer`."""
        if self.scale_name is not None:
            y = self._standard(x)[0].reshape(x.shape)
            tape.rows.append((self.scale_name, self._row_sums(u * y)))
        if self.shift_name is not None:
            tape.rows.append((self.shift_name, self._row_sums(u)))

    def pull(self, x: Tensor, u: Tensor) -> Tensor:
        """As in `Layer`."""
        return self._pulled(x, u, self.scale)

    def _pulled(self, x: Tensor, u: Tensor, scale: Tensor | None) -> Tensor:
        """With w = scale·u and y the standardised input: (w − mean w − y·mean(w·y)) / deviation."""
        y, inverse = self._standard(x)
        w = self._grouped(u if scale is None else u * self._for_rows(scale, u))
        centred = w - w.mean(-1, keepdim=True) - y * (w * y).mean(-1, keepdim=True)
        return (centred * inverse).reshape(x.shape)

    def push(self, x: Tensor, u: Tensor, t: Tensor, tape: Tape) -> tuple[Tensor, Tensor | None]:
        """As in `Layer`; every row has a copy of the scale, so that its derivative is per row at once."""
        copies = None if self.scale is None else self.scale.expand(x.shape[0], *self.scale.shape)
        at = [part.detach().requires_grad_() for part in (u, x, copies) if part is not None]
        with torch.enable_grad():
            pulled = self._pulled(at[1], at[0], at[2] if copies is not None else None)
            found = torch.autograd.grad(pulled, at, t)
        if self.scale_name is not None:
            tape.rows.append((self.scale_name, found[2]))
        return found[0], found[1]
