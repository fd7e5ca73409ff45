"""Both gradient paths against each other, against plain loops, and against the promises on sensitivity."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from understudy.dpsgd import Critic, CriticBatch, Path, clipped_sum, explain
from understudy.dpsgd.clipping import (
    SLACK,
    ConcreteClip,
    GlobalClip,
    GroupedClip,
    JointClip,
    MicrobatchClip,
    SeparateClip,
    WeightsBiasesClip,
)
from understudy.dpsgd.conditioning import (
    Conditioning,
    OneHotChannels,
    OneHotFeatures,
    Unconditional,
)
from understudy.dpsgd.gradients import fakes_part, functional, mean_norms, norms
from understudy.dpsgd.gradients.walk import Chain, read_chain
from understudy.dpsgd.losses import fake_loss, real_loss
from understudy.dpsgd.objectives import Minimax, Objective, Wasserstein, WassersteinPenalty
from understudy.errors import UnsupportedModel
from understudy.privacy.budget import Adjacency

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

CLASSES = 3
OBJECTIVES: list[Objective] = [Minimax(), Minimax(0.1), Wasserstein(), WassersteinPenalty()]
SMOOTH = [nn.Tanh, nn.Softplus, nn.GELU, nn.Sigmoid, nn.SiLU, nn.ELU]
SHARP = [nn.ReLU, lambda: nn.LeakyReLU(0.2), lambda: nn.LeakyReLU(0.1, inplace=True), nn.Identity]


@st.composite
def flat_critics(draw: st.DrawFn) -> tuple[Critic, tuple[int, ...]]:
    """MLPs of one to three hidden layers, with any activation, maybe layer norm, any way to condition."""
    width = draw(st.integers(2, 5))
    conditioning = draw(st.sampled_from([Unconditional(), OneHotFeatures(CLASSES, 3.0)]))
    size = width + (CLASSES if isinstance(conditioning, OneHotFeatures) else 0)
    layers: list[nn.Module] = []
    for _ in range(draw(st.integers(0, 3))):
        out = draw(st.integers(2, 6))
        layers.append(nn.Linear(size, out, bias=draw(st.booleans())))
        if draw(st.booleans()):
            layers.append(nn.LayerNorm(out, elementwise_affine=draw(st.booleans())))
        layers.append(draw(st.sampled_from([*SMOOTH, *SHARP]))())
        size = out
    layers.append(nn.Linear(size, 1))
    return Critic(nn.Sequential(*layers), conditioning), (width,)


@st.composite
def image_critics(draw: st.DrawFn) -> tuple[Critic, tuple[int, ...]]:
    """Convolutional critics of several strides, paddings and kernels, with pooling and group norm."""
    conditioning: Conditioning = draw(st.sampled_from([Unconditional(), OneHotChannels(CLASSES)]))
    channels = draw(st.integers(1, 2))
    size = (draw(st.integers(5, 8)), draw(st.integers(5, 8)))
    left = list(size)
    now = channels + (CLASSES if isinstance(conditioning, OneHotChannels) else 0)
    layers: list[nn.Module] = []
    for _ in range(draw(st.integers(1, 2))):
        out = 2 * draw(st.integers(1, 2))
        stride, padding = draw(st.integers(1, 3)), draw(st.integers(1, 2))
        kernel = draw(st.integers(1, min(5, *(side + 2 * padding for side in left))))
        left = [(side + 2 * padding - kernel) // stride + 1 for side in left]
        layers.append(nn.Conv2d(now, out, kernel, stride, padding, bias=draw(st.booleans())))
        if draw(st.booleans()):
            layers.append(nn.GroupNorm(1, out))
        layers.append(draw(st.sampled_from([*SMOOTH, *SHARP]))())
        now = out
    body = nn.Sequential(*layers)
    shape = body(
        torch.zeros(1, channels + (CLASSES if isinstance(conditioning, OneHotChannels) else 0), *size)
    ).shape
    if min(shape[2:]) >= 2 and draw(st.booleans()):
        body.append(nn.AvgPool2d(2))
        shape = body[-1](torch.zeros(shape)).shape
    body.append(nn.Flatten())
    body.append(nn.Linear(math.prod(shape[1:]), 1))
    return Critic(body, conditioning), (channels, *size)


def rules_for(critic: nn.Module) -> list[ConcreteClip]:
    """Every rule that both paths apply, at bounds that clip some records and spare others."""
    names = [name for name, _ in critic.named_parameters()]
    halves = (
        GroupedClip((0.6, 0.2), (tuple(names[::2]), tuple(names[1::2])))
        if len(names) > 1
        else GlobalClip(1.0)
    )
    paired = dataclasses.replace(halves, paired=True) if isinstance(halves, GroupedClip) else JointClip(1.0)
    apart = [WeightsBiasesClip(0.4, 0.3), WeightsBiasesClip(0.4, 0.3, paired=True)]
    return [GlobalClip(0.7), JointClip(0.7), SeparateClip(0.7, 0.1), *apart, halves, paired]


def random_batch(
    seed: int, real: int, shape: tuple[int, ...], scale: float, dtype: torch.dtype
) -> CriticBatch:
    """Records, labels, fakes and mixing coefficients from a seed."""
    source = torch.Generator().manual_seed(seed)

    def normal(rows: int) -> Tensor:
        return scale * torch.randn(rows, *shape, generator=source, dtype=dtype)

    return CriticBatch(
        real=normal(real),
        real_labels=torch.randint(0, CLASSES, (real,), generator=source),
        fake=normal(3),
        fake_labels=torch.randint(0, CLASSES, (3,), generator=source),
        mixing=torch.rand(real, generator=source, dtype=dtype),
        partner=torch.randint(0, 3, (real,), generator=source),
    )


def relative_error(found: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """The norm of the difference over the norm of the expected gradient (at least one)."""
    difference = math.sqrt(sum(float((found[n] - expected[n]).double().square().sum()) for n in expected))
    size = math.sqrt(sum(float(g.double().square().sum()) for g in expected.values()))
    return difference / max(size, 1.0)


EXAMPLES = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def check_paths_agree(critic: Critic, batch: CriticBatch, objective: Objective, chunk: int | None) -> None:
    """Book-keeping equals vmap for every rule, in the records' sum, the count, and the fakes' part."""
    assert isinstance(read_chain(critic), Chain)
    for rule in rules_for(critic):
        fast = clipped_sum(critic, objective, batch, rule, path=Path.BOOK_KEEPING, chunk=chunk)
        slow = clipped_sum(critic, objective, batch, rule, path=Path.VMAP)
        assert relative_error(fast.gradients, slow.gradients) < 1e-9
        assert fast.shifted_count == slow.shifted_count
        assert fast.sensitivity == slow.sensitivity
        parts = [
            fakes_part(
                critic, objective, batch.fake, batch.fake_labels, rule, path=path, chunk=size
            ).gradients
            for path, size in ((Path.BOOK_KEEPING, chunk), (Path.VMAP, None))
        ]
        assert relative_error(*parts) < 1e-9


@EXAMPLES
@given(
    flat_critics(),
    st.sampled_from(OBJECTIVES),
    st.integers(0, 4),
    st.integers(0, 10**6),
    st.sampled_from([1e-3, 1.0, 1e4]),
)
def test_book_keeping_equals_vmap_on_flat_critics(
    made: tuple[Critic, tuple[int, ...]], objective: Objective, real: int, seed: int, scale: float
) -> None:
    """MLPs of every kind, all objectives and rules, batches of 0 and 1, inputs up to 1e4: equal to 1e-9."""
    critic, shape = made
    check_paths_agree(critic.double(), random_batch(seed, real, shape, scale, torch.float64), objective, None)


def test_book_keeping_equals_vmap_in_the_unit_range() -> None:
    """Records that are shown in [0, 1] have the gradients of what is shown, on both paths."""
    for hidden in (nn.Sequential(nn.Flatten(), nn.Linear(7, 5)), nn.Sequential(nn.Linear(7, 5))):
        body = nn.Sequential(*hidden, nn.ReLU(), nn.Linear(5, 1))
        critic = Critic(body, OneHotFeatures(CLASSES, unit_range=True)).double()
        check_paths_agree(critic, random_batch(1, 4, (4,), 1.0, torch.float64), Minimax(), None)


@EXAMPLES
@given(
    image_critics(),
    st.sampled_from(OBJECTIVES),
    st.integers(0, 3),
    st.integers(0, 10**6),
    st.sampled_from([1e-2, 1.0, 1e2]),
    st.booleans(),
    st.sampled_from([None, 1, 2]),
)
def test_book_keeping_equals_vmap_on_image_critics(
    made: tuple[Critic, tuple[int, ...]],
    objective: Objective,
    real: int,
    seed: int,
    scale: float,
    whole: bool,
    chunk: int | None,
) -> None:
    """Convolutional critics agree too, with whole gradients and with Gram matrices, in any chunks."""
    critic, shape = made
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(norms, "makes_whole_gradients", lambda layer, pairs, records: whole)
        check_paths_agree(
            critic.double(), random_batch(seed, real, shape, scale, torch.float64), objective, chunk
        )


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: o.kind)
def test_float32_agrees_to_rounding(objective: Objective) -> None:
    """In single precision both paths agree to the precision of the sums."""
    critic = Critic(nn.Sequential(nn.Linear(30, 20), nn.LeakyReLU(0.2), nn.Linear(20, 1)))
    batch = random_batch(0, 40, (30,), 1.0, torch.float32)
    fast = clipped_sum(critic, objective, batch, GlobalClip(0.7), path=Path.BOOK_KEEPING)
    slow = clipped_sum(critic, objective, batch, GlobalClip(0.7), path=Path.VMAP)
    assert relative_error(fast.gradients, slow.gradients) < 1e-5


def loop_over_records(
    critic: Critic, objective: Objective, batch: CriticBatch, bound: float
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The definition, written with autograd alone: one backward per record, clip, add; and the fakes' mean."""
    params = dict(critic.named_parameters())
    records, fakes = ({name: torch.zeros_like(p) for name, p in params.items()} for _ in range(2))

    def add(total: dict[str, Tensor], loss: Tensor, limit: float, weight: float) -> None:
        found = torch.autograd.grad(loss, list(params.values()), materialize_grads=True)
        norm = math.sqrt(sum(float(g.square().sum()) for g in found))
        factor = min(1.0, limit / (1 + SLACK) / norm) if norm else 1.0
        for name, g in zip(params, found, strict=True):
            total[name] += weight * factor * g

    for i in range(len(batch.real)):
        loss = real_loss(objective, critic(batch.real[i : i + 1])).sum()
        if isinstance(objective, WassersteinPenalty):
            assert batch.mixing is not None
            partner = batch.fake[int(batch.partners()[i])]
            point = (batch.mixing[i] * batch.real[i] + (1 - batch.mixing[i]) * partner)[None].requires_grad_()
            (slope,) = torch.autograd.grad(critic(point).sum(), point, create_graph=True)
            loss = loss + objective.weight * (slope.norm() - 1) ** 2
        add(records, loss, bound, 1.0)
    for row in batch.fake:
        add(fakes, fake_loss(objective, critic(row[None])).sum(), math.inf, 1 / len(batch.fake))
    return records, fakes


@pytest.mark.parametrize("path", list(Path))
@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: o.kind)
def test_both_paths_equal_a_loop_over_records(
    path: Path, objective: Objective, small_critic: Critic, make_batch: Callable[..., CriticBatch]
) -> None:
    """A third, independent computation by plain autograd gives the same sum, and the same mean of fakes."""
    batch, rule = make_batch(5, 3), GlobalClip(0.5)
    records, fakes = loop_over_records(small_critic, objective, batch, 0.5)
    found = clipped_sum(small_critic, objective, batch, rule, path=path)
    assert relative_error(found.gradients, records) < 1e-12
    part = fakes_part(small_critic, objective, batch.fake, None, rule, path=path)
    assert relative_error(part.gradients, fakes) < 1e-12


def all_rules() -> list[ConcreteClip]:
    """Rules for the 6-5-1 critic."""
    first, second = ("body.0.weight", "body.0.bias"), ("body.2.weight", "body.2.bias")
    return [
        GlobalClip(0.5),
        SeparateClip(0.5, 0.1),
        JointClip(0.5),
        GroupedClip((0.3, 0.4), (first, second)),
        WeightsBiasesClip(0.3, 0.4),
        MicrobatchClip(0.5, 2),
        GroupedClip((0.3, 0.4), (first, second), paired=True),
        WeightsBiasesClip(0.3, 0.4, paired=True),
    ]


def without_record(batch: CriticBatch, gone: int) -> CriticBatch:
    """The same batch without one record; the others keep their partner, mixing and microbatch."""
    keep = [i for i in range(len(batch.real)) if i != gone]
    fields = ("real", "real_labels", "mixing", "partner", "microbatch")
    values = {f: getattr(batch, f) for f in fields}
    return dataclasses.replace(batch, **{f: None if v is None else v[keep] for f, v in values.items()})


def distance(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The Euclidean distance between two gradients."""
    return math.sqrt(sum(float((one[n] - other[n]).double().square().sum()) for n in one))


@pytest.mark.parametrize("rule", all_rules(), ids=lambda r: f"{r.kind}-paired" if r.paired else r.kind)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([0.1, 1.0, 1e4]),
    objective=st.sampled_from(OBJECTIVES),
    single=st.booleans(),
)
def test_one_record_moves_the_sum_by_at_most_the_sensitivity(
    rule: ConcreteClip, small_critic: Critic, seed: int, scale: float, objective: Objective, single: bool
) -> None:
    """Adding, removing or replacing a record (also by a huge one) stays within what the rule says."""
    dtype = torch.float32 if single else torch.float64
    critic = small_critic.to(dtype)
    batch = random_batch(seed, 5, (6,), scale, dtype)
    batch = dataclasses.replace(batch, partner=batch.partners(), microbatch=torch.tensor([0, 0, 1, 1, 2]))
    sums = {}
    changed = batch.real.clone()
    changed[1] = -1000 * changed[1]
    for key, variant in {
        "all": batch,
        "removed": without_record(batch, 1),
        "replaced": dataclasses.replace(batch, real=changed),
    }.items():
        sums[key] = clipped_sum(critic, objective, variant, rule).gradients
    slack = 1 + 1e-9
    assert distance(sums["all"], sums["removed"]) <= rule.sensitivity(Adjacency.ADD_OR_REMOVE_ONE) * slack
    assert distance(sums["all"], sums["replaced"]) <= rule.sensitivity(Adjacency.REPLACE_ONE) * slack


def test_a_clipped_record_uses_its_whole_bound(small_critic: Critic) -> None:
    """The bound is reached up to the slack of one percent, so no more signal is given away."""
    batch = random_batch(0, 1, (6,), 1.0, torch.float64)
    batch = dataclasses.replace(batch, fake=batch.fake[:0], fake_labels=None)
    for rule in (GlobalClip(0.01), GroupedClip((0.003, 0.004), all_rules()[3].groups)):  # type: ignore[union-attr]
        found = clipped_sum(small_critic, Wasserstein(), batch, rule).gradients
        size = math.sqrt(sum(float(g.square().sum()) for g in found.values()))
        assert size == pytest.approx(rule.sensitivity(Adjacency.ADD_OR_REMOVE_ONE) / (1 + SLACK), rel=1e-6)


@pytest.mark.parametrize("path", list(Path))
@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: o.kind)
def test_groups_of_pairs_are_clipped_as_pairs(
    path: Path, objective: Objective, small_critic: Critic, make_batch: Callable[..., CriticBatch]
) -> None:
    """One group of everything is joint clipping if records are paired with fakes, and global clipping if not."""
    batch = make_batch(5, 3)
    batch = dataclasses.replace(batch, partner=batch.partners())
    names = tuple(name for name, _ in small_critic.named_parameters())
    for paired, same in ((True, JointClip(0.5)), (False, GlobalClip(0.5))):
        expected = clipped_sum(small_critic, objective, batch, same, path=path).gradients
        found = clipped_sum(small_critic, objective, batch, GroupedClip((0.5,), (names,), paired), path=path)
        assert relative_error(found.gradients, expected) < 1e-12


@pytest.mark.parametrize("path", list(Path))
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("objective", [Minimax(), WassersteinPenalty()], ids=lambda o: o.kind)
def test_broken_records_contribute_nothing(
    path: Path,
    value: float,
    objective: Objective,
    small_critic: Critic,
    make_batch: Callable[..., CriticBatch],
) -> None:
    """A record with NaN or infinity leaves the sum as if it were not there, for vectors and for images."""
    image_critic = Critic(
        nn.Sequential(nn.Conv2d(1, 2, 3, 2, 1), nn.GroupNorm(1, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 1))
    ).double()
    for critic, shape in ((small_critic, (6,)), (image_critic, (1, 4, 4))):
        batch = make_batch(4, 3, shape)
        batch = dataclasses.replace(batch, partner=batch.partners())
        batch.real[2].view(-1)[1] = value
        found = clipped_sum(critic, objective, batch, GlobalClip(0.5), path=path).gradients
        expected = clipped_sum(
            critic, objective, without_record(batch, 2), GlobalClip(0.5), path=path
        ).gradients
        assert relative_error(found, expected) < 1e-12


@pytest.mark.parametrize("path", list(Path))
def test_chunks_are_scheduling_only(path: Path) -> None:
    """Any chunk size gives the same sum."""
    critic = Critic(
        nn.Sequential(nn.Conv2d(1, 3, 3, 2, 1), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(27, 1))
    ).double()
    batch = random_batch(3, 7, (1, 6, 6), 1.0, torch.float64)
    sums = [
        clipped_sum(critic, WassersteinPenalty(), batch, GlobalClip(0.3), path=path, chunk=chunk).gradients
        for chunk in (None, 1, 2, 3, 7, 100)
    ]
    for other in sums[1:]:
        assert relative_error(other, sums[0]) < 1e-12


@pytest.mark.parametrize("rule", all_rules(), ids=lambda r: f"{r.kind}-paired" if r.paired else r.kind)
@pytest.mark.parametrize("path", list(Path))
def test_every_rule_can_be_taken_in_pieces(rule: ConcreteClip, path: Path, small_critic: Critic) -> None:
    """Pieces of records and of fakes add up to the whole under each rule, in the sum and in the count."""
    batch = random_batch(4, 5, (6,), 1.0, torch.float64)
    batch = dataclasses.replace(batch, microbatch=torch.tensor([0, 0, 0, 1, 2]))
    for objective in (Minimax(), WassersteinPenalty()):
        whole = clipped_sum(small_critic, objective, batch, rule, path=path)
        for chunk in (1, 2, 4):
            pieces = clipped_sum(small_critic, objective, batch, rule, path=path, chunk=chunk)
            assert relative_error(pieces.gradients, whole.gradients) < 1e-12
            assert pieces.shifted_count == whole.shifted_count
            fakes, in_pieces = (
                fakes_part(small_critic, objective, batch.fake, None, rule, path=path, chunk=size).gradients
                for size in (None, chunk)
            )
            assert relative_error(in_pieces, fakes) < 1e-12


DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("objective", [Minimax(), WassersteinPenalty()], ids=lambda o: o.kind)
def test_paths_agree_on_every_device(device: str, objective: Objective) -> None:
    """Labelled vectors and images give the same sum by both paths on whatever device the critic is."""
    flat = nn.Sequential(nn.Linear(6 + CLASSES, 5), nn.LeakyReLU(0.2), nn.Linear(5, 1))
    image = nn.Sequential(
        nn.Conv2d(1 + CLASSES, 4, 3), nn.GroupNorm(2, 4), nn.Tanh(), nn.Flatten(), nn.Linear(16, 1)
    )
    for critic, shape in (
        (Critic(flat, OneHotFeatures(CLASSES)), (6,)),
        (Critic(image, OneHotChannels(CLASSES)), (1, 4, 4)),
    ):
        batch = random_batch(6, 5, shape, 1.0, torch.float64)
        moved = {
            f.name: value.to(device)
            for f in dataclasses.fields(batch)
            if isinstance(value := getattr(batch, f.name), torch.Tensor)
        }
        check_paths_agree(critic.double().to(device), dataclasses.replace(batch, **moved), objective, None)


def test_nearly_cancelling_places_keep_their_bound() -> None:
    """Real and fake that almost cancel, at inputs of 1e4 in float32, stay within the bound."""
    torch.manual_seed(1)
    critic = Critic(nn.Sequential(nn.Linear(50, 30), nn.LeakyReLU(0.2), nn.Linear(30, 1)))
    real = 1e4 * torch.randn(1, 50)
    for gap in (1e-2, 1e-4, 1e-5):
        batch = CriticBatch(real, None, real + gap * torch.randn(1, 50))
        found = clipped_sum(critic, Wasserstein(), batch, JointClip(1.0)).gradients
        size = math.sqrt(sum(float(g.double().square().sum()) for g in found.values()))
        assert size <= 1.0


def test_tied_and_frozen_layers(make_batch: Callable[..., CriticBatch]) -> None:
    """A layer that occurs twice gets both gradients; a frozen parameter gets none."""
    shared = nn.Linear(6, 6)
    critic = Critic(nn.Sequential(shared, nn.Tanh(), shared, nn.Tanh(), nn.Linear(6, 1))).double()
    critic.body[4].bias.requires_grad_(False)
    batch = make_batch(4, 3)
    for objective in OBJECTIVES:
        fast = clipped_sum(critic, objective, batch, GlobalClip(0.5), path=Path.BOOK_KEEPING)
        slow = clipped_sum(critic, objective, batch, GlobalClip(0.5), path=Path.VMAP)
        assert "body.4.bias" not in fast.gradients
        assert isinstance(shared.weight, nn.Parameter)
        assert relative_error(fast.gradients, slow.gradients) < 1e-12


def test_weights_tied_between_modules_and_an_untouched_critic(make_batch: Callable[..., CriticBatch]) -> None:
    """Two modules with one weight get its whole gradient, by vmap, and the critic is left as it was."""
    body = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 1))
    body[2].weight = body[0].weight
    critic = Critic(body).double()
    before = {name: (id(p), p.detach().clone()) for name, p in critic.named_parameters()}
    batch = make_batch(4, 3)
    expected, _ = loop_over_records(critic, WassersteinPenalty(), batch, 0.5)
    assert explain(critic, WassersteinPenalty()).startswith("vmap: two layers share")
    for path in (None, Path.VMAP):
        found = clipped_sum(critic, WassersteinPenalty(), batch, GlobalClip(0.5), path=path)
        assert relative_error(found.gradients, expected) < 1e-12
        for name, p in critic.named_parameters():
            assert id(p) == before[name][0]
            assert torch.equal(p, before[name][1])
            assert p.requires_grad


def test_layers_with_hooks_go_to_vmap(small_critic: Critic, make_batch: Callable[..., CriticBatch]) -> None:
    """A hook that changes the output changes the gradient too: the walk would miss it, so it is not taken."""
    batch = make_batch(3, 2)
    plain = clipped_sum(small_critic, Wasserstein(), batch, GlobalClip(1e6)).gradients
    small_critic.body[2].register_forward_hook(lambda module, inputs, output: 3.0 * output)
    assert explain(small_critic, Wasserstein()).startswith("vmap: a layer has hooks")
    hooked = clipped_sum(small_critic, Wasserstein(), batch, GlobalClip(1e6)).gradients
    assert relative_error(hooked, {name: 3.0 * g for name, g in plain.items()}) < 1e-12


class _OwnCritic(nn.Module):
    """A module that the walk cannot read."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 6))

    def forward(self, x: Tensor, labels: Tensor | None) -> Tensor:
        return ((x @ self.weight) * x).sum(1)


def test_unknown_critics_fall_back_to_vmap(make_batch: Callable[..., CriticBatch]) -> None:
    """Any module works through vmap; forcing book-keeping on it says why not."""
    critic = _OwnCritic().double()
    batch = make_batch(3, 2)
    found = clipped_sum(critic, Minimax(), batch, GlobalClip(0.5))
    assert set(found.gradients) == {"weight"}
    with pytest.raises(UnsupportedModel, match="_OwnCritic"):
        clipped_sum(critic, Minimax(), batch, GlobalClip(0.5), path=Path.BOOK_KEEPING)
    assert explain(critic, Minimax()).startswith("vmap: _OwnCritic")


def test_explain_names_the_path(small_critic: Critic) -> None:
    """The reader learns which path runs and, for vmap, which layer is the reason."""
    assert explain(small_critic, Minimax()).startswith("book-keeping: all 3 layers")
    assert "second derivatives" in explain(small_critic, WassersteinPenalty())
    dilated = Critic(nn.Sequential(nn.Conv2d(1, 1, 3, dilation=2), nn.Flatten(), nn.Linear(4, 1)))
    assert "body.0" in explain(dilated, Minimax())


@pytest.mark.parametrize(
    ("layer", "advice"),
    [
        (nn.BatchNorm1d(5), "GroupNorm"),
        (nn.SyncBatchNorm(5), "GroupNorm"),
        (nn.InstanceNorm1d(5, track_running_stats=True), "track_running_stats=False"),
        (nn.utils.parametrizations.spectral_norm(nn.Linear(5, 5)), "plain layer"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_layers_that_mix_records_are_refused(
    layer: nn.Module, advice: str, make_batch: Callable[..., CriticBatch]
) -> None:
    """The error names the layer and what to use instead."""
    critic = Critic(nn.Sequential(nn.Linear(6, 5), layer, nn.Linear(5, 1))).double()
    with pytest.raises(UnsupportedModel, match=rf"body\.1.*{advice}"):
        clipped_sum(critic, Minimax(), make_batch(2, 2), GlobalClip(1.0))


@pytest.mark.parametrize("entries", [1_000, 1_024, 1_025, 99_999, 1_000_000, 3_000_000])
def test_norms_of_long_regular_rows_are_not_too_small(entries: int) -> None:
    """Equal entries, of which float32 loses 1e-3 of the norm when there are millions, stay within the slack."""
    rows = torch.full((2, entries), 0.7)
    exact = math.sqrt(entries) * float(rows[0, 0])
    assert norms.row_squares(rows).sqrt().tolist() == pytest.approx([exact] * 2, rel=1e-4)


def test_mean_norms_are_the_same_by_both_paths(make_batch: Callable[..., CriticBatch]) -> None:
    """Public bounds come from true mean norms, parameter by parameter."""
    critic = Critic(
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.GroupNorm(1, 2), nn.Tanh(), nn.Flatten(), nn.Linear(8, 1))
    ).double()
    batch = make_batch(4, 3, (1, 4, 4))
    found = mean_norms(critic, WassersteinPenalty(), batch)
    slow = functional.squared_norms(critic, WassersteinPenalty(), batch, joint=False, chunk=None)
    assert found == pytest.approx({name: float(s.sqrt().mean()) for name, s in slow.items()})
