"""The museum: published errors of private GANs, re-enacted as small steps, and audited beside a correct one.

Every piece is our own code and keeps of the published system only its error; per-record gradients are real. The
claimed numbers (q, σ, T) are those that the system's books are kept with; the claimed ε is what our accountant
gives for them, so a piece is convicted by its mechanism and never by an older accountant. Two claims are ours:
PPGAN's formula counts five steps of millions, so it is given a σ that a claim of its size would need; SPRINT GAN is
claimed for ten of its five hundred epochs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.func import functional_call, grad, vmap
from torch.nn.functional import softplus

from understudy.auditing.canaries import CriticSubject, wide_mlp
from understudy.auditing.claims import Claim
from understudy.auditing.production import engine_sampler, engine_step
from understudy.auditing.step import Thoroughness, audit_step
from understudy.door.noise import SeededNoise
from understudy.dpsgd.clipping import GlobalClip
from understudy.dpsgd.objectives import Minimax
from understudy.privacy.mechanisms import SubsampledGaussian

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray
    from torch import Tensor, nn

    from understudy.auditing.canaries import Step
    from understudy.auditing.verdict import Audit, Outcome

    Gradients = dict[str, Tensor]

__all__ = ["PIECES", "Exhibit", "Piece", "museum"]

_FEATURES, _HIDDEN, _CANARIES = 8, (8,), 100
_BATCH = 64
_VISIT = Thoroughness(rounds=240, opposed_rounds=300, training_rounds=60)


@dataclass(frozen=True)
class Piece:
    """One published error, or the correct step.

    Args:
        name: what it is called in the table.
        source: where it was published.
        error: what is wrong, in a few words; empty for the correct step.
        claim: the numbers in its books.
        step: makes the step, given a source of noise.
        sensitivity: the sensitivity that its books assume.
        sampler: makes the sampler, given a seed; None when its gradient is what is wrong.
        labelled: whether the records of its audit carry a label of their own.
    """

    name: str
    source: str
    error: str
    claim: Claim
    step: Callable[[_Noise], Step]
    sensitivity: float
    sampler: Callable[[int], Callable[[int], NDArray[np.int64]]] | None = None
    labelled: bool = False


@dataclass(frozen=True)
class Exhibit:
    """One line of the museum's table."""

    piece: str
    source: str
    error: str
    claimed_epsilon: float
    lower_bound: float
    reading: str | None
    verdict: Outcome
    says: str


class _Noise:
    """Seeded Gaussian noise for the re-enactments."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._generator = torch.Generator().manual_seed(seed)

    def add(self, gradients: Gradients, deviation: float) -> Gradients:
        return {
            name: g + deviation * torch.randn(g.shape, generator=self._generator)
            for name, g in gradients.items()
        }


# ------------------------------------------------------------------------------ parts of private steps


def _per_record(critic: nn.Module, rows: Tensor, sign: float) -> Gradients:
    """Each row's own gradient of softplus(sign · logit): −1 for the real branch, +1 for the fake one."""
    weights = {name: p.detach() for name, p in critic.named_parameters()}
    if not len(rows):
        return {name: w.new_zeros((0, *w.shape)) for name, w in weights.items()}

    def loss(weights: Gradients, row: Tensor) -> Tensor:
        logit: Tensor = functional_call(critic, weights, (row[None],))
        return softplus(sign * logit).sum()

    gradients: Gradients = vmap(grad(loss), (None, 0))(weights, rows)
    return gradients


def _clip_together(gradients: Gradients, bound: float) -> Gradients:
    """The sum of records, each clipped by its norm over all tensors."""
    norms = torch.stack([g.flatten(1).square().sum(1) for g in gradients.values()]).sum(0).sqrt()
    factors = (bound / norms.clamp(min=1e-12)).clamp(max=1.0)
    return {name: torch.tensordot(factors, g, 1) for name, g in gradients.items()}


def _clip_apart(gradients: Gradients, bound: float) -> Gradients:
    """The sum of records, each tensor clipped by its own norm."""
    clipped = {}
    for name, g in gradients.items():
        factors = (bound / g.flatten(1).norm(dim=1).clamp(min=1e-12)).clamp(max=1.0)
        clipped[name] = torch.tensordot(factors, g, 1)
    return clipped


def _total(one: Gradients, other: Gradients) -> Gradients:
    return {name: one[name] + other[name] for name in one}


# ------------------------------------------------------------------------------ the pieces


def _noise_over_root_batch(noise: _Noise) -> Step:
    def step(critic: nn.Module, real: Tensor, fake: Tensor) -> Gradients:  # noqa: ARG001
        return noise.add(_clip_together(_per_record(critic, real, -1), 4.0), 1.0859 * 4.0 / math.sqrt(_BATCH))

    return step


def _every_tensor_at_the_bound(sigma: float, bound: float) -> Callable[[_Noise], Step]:
    def make(noise: _Noise) -> Step:
        def step(critic: nn.Module, real: Tensor, fake: Tensor) -> Gradients:  # noqa: ARG001
            return noise.add(_clip_apart(_per_record(critic, real, -1), bound), sigma * bound)

        return step

    return make


def _correct(sigma: float, bound: float) -> Callable[[_Noise], Step]:
    def make(noise: _Noise) -> Step:
        def step(critic: nn.Module, real: Tensor, fake: Tensor) -> Gradients:  # noqa: ARG001
            return noise.add(_clip_together(_per_record(critic, real, -1), bound), sigma * bound)

        return step

    return make


def _real_labels_in_the_fake_branch(noise: _Noise) -> Step:
    """Records are (image, label): the fake image of a real record gets the real record's label."""

    def step(critic: nn.Module, real: Tensor, fake: Tensor) -> Gradients:
        images = fake[torch.arange(len(real)) % len(fake), :_FEATURES]
        features = fake.new_zeros(len(real), _CANARIES)
        relabelled = torch.cat([images, features, real[:, -_CANARIES:]], dim=1)
        one = _clip_together(_per_record(critic, real, -1), 1.1)
        other = _clip_together(_per_record(critic, relabelled, +1), 1.1)
        return noise.add(_total(one, other), 1.15 * 1.1)

    return step


def _microbatches_at_sensitivity_one(noise: _Noise) -> Step:
    """The mean gradient of every eight records is clipped, and counted as if it were one record's."""

    def step(critic: nn.Module, real: Tensor, fake: Tensor) -> Gradients:  # noqa: ARG001
        gradients = _per_record(critic, real, -1)
        parts = range(0, len(real), 8)
        means = {
            name: torch.stack([g[i : i + 8].mean(0) for i in parts]) if len(real) else g
            for name, g in gradients.items()
        }
        return noise.add(_clip_together(means, 1.1), 1.15 * 1.1)

    return step


def _mean_clipped_with_fixed_noise(noise: _Noise) -> Step:
    def step(critic: nn.Module, real: Tensor, fake: Tensor) -> Gradients:  # noqa: ARG001
        gradients = _per_record(critic, real, -1)
        mean = {name: g.sum(0, keepdim=True) / max(len(real), 1) for name, g in gradients.items()}
        return noise.add(_clip_together(mean, 5.0), 1e-4)

    return step


def _bound_squared(noise: _Noise) -> Step:
    def step(critic: nn.Module, real: Tensor, fake: Tensor) -> Gradients:  # noqa: ARG001
        return noise.add(_clip_together(_per_record(critic, real, -1), 1e-4), 1.0 * 1e-4**2)

    return step


def _engine(noise: _Noise) -> Step:
    return engine_step(_OURS.mechanism, GlobalClip(1.1), Minimax(), SeededNoise(noise.seed))


def _shuffled_epochs(rate: float) -> Callable[[int], Callable[[int], NDArray[np.int64]]]:
    """Batches of fixed size that run through a shuffled data set, accounted as if they were Poisson."""

    def make(seed: int) -> Callable[[int], NDArray[np.int64]]:
        rng, left = np.random.default_rng(seed), np.empty(0, dtype=np.int64)

        def sampler(rows: int) -> NDArray[np.int64]:
            nonlocal left
            size = round(rate * rows)
            if len(left) < size:
                left = rng.permutation(rows)
            batch, left = left[:size], left[size:]
            return batch

        return sampler

    return make


def _claim(rate: float, sigma: float, steps: int) -> Claim:
    return Claim(SubsampledGaussian(rate, sigma, steps), delta=1e-5)


_DP_CGAN = "DP-CGAN (Torkzadehmahani et al. 2019)"
_DP_CGAN_TF2 = "DP-CGAN for TF2 (Carvalho 2019)"
_DP_GAN = "dp-GAN (Zhang, Ji, Wang 2018)"
_OURS = _claim(0.01, 1.15, 24_900)

PIECES: tuple[Piece, ...] = (
    Piece("dp-gan-noise", _DP_GAN, "noise divided by √B", _claim(256 / 49_000, 1.0859, 3_120),
          _noise_over_root_batch, 4.0),
    Piece("dp-gan-groups", _DP_GAN, "every tensor at C, no √k", _claim(256 / 49_000, 1.0859, 3_120),
          _every_tensor_at_the_bound(1.0859, 4.0), 4.0),
    Piece("dp-cgan-accountant", _DP_CGAN, "σ·C given to the accountant", _claim(0.01, 1.12 * 1.1, 30_300),
          _correct(1.12, 1.1), 1.1),
    Piece("dp-cgan-tensors", _DP_CGAN, "every tensor at C, no √k", _claim(0.01, 1.12, 30_300),
          _every_tensor_at_the_bound(1.12, 1.1), 1.1),
    Piece("dp-cgan-labels", _DP_CGAN, "real labels in the fake branch", _claim(0.01, 1.15, 24_900),
          _real_labels_in_the_fake_branch, 1.1, labelled=True),
    Piece("dp-cgan-tf2-microbatch", _DP_CGAN_TF2, "microbatches counted as one record", _claim(0.01, 1.15, 24_900),
          _microbatches_at_sensitivity_one, 1.1),
    Piece("ppgan-mean", "PPGAN (Liu et al. 2019)", "batch mean clipped, noise fixed",
          _claim(128 / 60_000, 0.78, 46_800), _mean_clipped_with_fixed_noise, 5.0 / 128),
    Piece("sprint-squared", "SPRINT GAN before its correction (Beaulieu-Jones et al. 2017)", "noise σ·C² for σ·C",
          _claim(1 / 6_000, 1.0, 60_000), _bound_squared, 1e-4),
    Piece("shuffled-epochs", "all of the above", "shuffled batches accounted as Poisson", _OURS,
          _correct(1.15, 1.1), 1.1, _shuffled_epochs(0.01)),
    Piece("understudy", "this package", "", _OURS, _engine, 1.0,
          lambda seed: engine_sampler(_OURS.mechanism, SeededNoise(seed))),
)  # fmt: skip
"""The collection, the correct step last."""


def museum(
    pieces: Sequence[Piece] = PIECES, thoroughness: Thoroughness = _VISIT, *, seed: int = 0
) -> Iterator[Exhibit]:
    """Audit the pieces, and hand out the lines of the museum's table as they are found."""
    for piece in pieces:
        yield exhibit(piece, inspect(piece, thoroughness, seed=seed))


def inspect(piece: Piece, thoroughness: Thoroughness = _VISIT, *, seed: int = 0) -> Audit:
    """The whole audit of one piece."""
    subject = CriticSubject(
        piece.name,
        piece.step(_Noise(seed + 1)),
        wide_mlp(_FEATURES, _HIDDEN, _CANARIES * (1 + piece.labelled), seed=seed),
        _CANARIES,
        sensitivity=piece.sensitivity,
        sampler=None if piece.sampler is None else piece.sampler(seed + 2),
        labelled=piece.labelled,
        seed=seed + 3,
    )
    return audit_step(subject, piece.claim, thoroughness, seed=seed + 4)


def exhibit(piece: Piece, result: Audit) -> Exhibit:
    """The line of the table that an audit gives."""
    return Exhibit(
        piece=piece.name,
        source=piece.source,
        error=piece.error,
        claimed_epsilon=result.claimed_epsilon,
        lower_bound=result.lower_bound,
        reading=result.verdict.reading,
        verdict=result.verdict.outcome,
        says=result.verdict.says,
    )
