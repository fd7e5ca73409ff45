"""Training on another device than the CPU, rehearsed without one.

torch's "meta" device has shapes and no numbers. A run whose networks are there, under a watch that refuses every
operation on tensors of two devices, shows that nothing was left behind on the CPU, which is what goes wrong on graphics
cards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tiny import tiny_plan
from understudy.door.door import Door
from understudy.door.noise import SeededNoise
from understudy.door.source import Rows
from understudy.errors import PlanError
from understudy.run.devices import Device, chosen_device
from understudy.run.fit import fit
from understudy.schema import ImageSchema
from understudy.synthesizers.embedding.fit import EmbeddingFitter
from understudy.synthesizers.gan.fit import GanFitter

if TYPE_CHECKING:
    from understudy.planning import Plan

CPU = torch.device("cpu")
META = torch.device("meta")
SCHEMA = ImageSchema(16, 16, 1, classes=("ring", "bar"))
MOVES = {"aten::_to_copy", "aten::copy_", "aten::index.Tensor"}
"""What may see two devices: copies, and choosing rows by numbers that are on the CPU."""


class OneDevice(TorchDispatchMode):
    """Refuses operations on tensors of two devices; single numbers count nowhere, as on graphics cards."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor) and one.ndim]
        devices = {one.device for one in tensors}
        if len(devices) > 1 and func.name() not in MOVES:
            raise AssertionError(f"{func.name()} mixes {devices}")
        return func(*args, **(kwargs or {}))


@pytest.fixture
def numbers_on_meta(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a run read single numbers from tensors that have none, as it may on any device that has."""
    for name, value in (("item", 1.0), ("__float__", 1.0), ("__bool__", True)):
        known = getattr(torch.Tensor, name)

        def read(tensor: torch.Tensor, known: Any = known, value: Any = value) -> Any:
            return value if tensor.device == META else known(tensor)

        monkeypatch.setattr(torch.Tensor, name, read)


def rows() -> Rows:
    """Images on the CPU, as private records always are."""
    source = torch.Generator().manual_seed(0)
    return Rows(torch.rand(64, 1, 16, 16, generator=source), torch.arange(64) % 2)


def trained(plan: Plan) -> GanFitter:
    """All steps of a critic and its generator on the other device, with public rows as well."""
    assert plan.schema is not None
    fitter = plan.recipe.fitter(plan.schema, seed=0, device=META)
    assert isinstance(fitter, GanFitter)
    records = Rows(rows().x) if plan.schema.label_classes is None else rows()
    door = Door(records, plan.run_charges, SeededNoise(0), private=plan.private, insecure=True, rows=64)
    fitter.begin(door, None, lambda: None)
    with OneDevice():
        for _ in range(plan.steps):
            fitter.advance(door, records)
    return fitter


@pytest.mark.usefixtures("numbers_on_meta")
@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")
@pytest.mark.parametrize("recipe", ["dp-cgan", "dp-gan", "ppgan", "small-images"])
def test_a_critic_trains_where_its_networks_are(recipe: str) -> None:
    """Fakes, labels, clipped sums, noise, optimisers and averages are on one device, and so is a resumed run."""
    plan = tiny_plan(SCHEMA, recipe=recipe, steps=6)
    fitter = trained(plan)
    assert {value.device for value in fitter.generator.state_dict().values()} == {META}
    state = {
        name: one if name.startswith("run:") else torch.zeros(one.shape, dtype=one.dtype)
        for name, one in fitter.state().items()
    }
    fitter.restore(state)
    with OneDevice():
        fitter._move_generator()


@pytest.mark.usefixtures("numbers_on_meta")
def test_a_baseline_trains_where_its_networks_are() -> None:
    """The step without noise, which warm starts on public records use too, moves its rows to the critic."""
    fitter = trained(tiny_plan(SCHEMA, recipe="small-images", steps=3, epsilon=None))
    assert {value.device for value in fitter.critic.state_dict().values()} == {META}


@pytest.mark.usefixtures("numbers_on_meta")
def test_what_is_left_on_the_cpu_is_noticed() -> None:
    """The watch can fail: labels or latents that stay on the CPU are a mistake that it sees."""
    plan = tiny_plan(SCHEMA, recipe="dp-cgan", steps=3)
    fitter = plan.recipe.fitter(SCHEMA, seed=0, device=META)
    assert isinstance(fitter, GanFitter)
    fitter.label_weights, fitter._device = (0.5, 0.5), CPU
    with pytest.raises((AssertionError, RuntimeError), match=r"mixes|expected device"), OneDevice():
        fitter._fakes()


@pytest.mark.usefixtures("numbers_on_meta")
def test_a_generator_learns_from_a_statistic_where_it_is() -> None:
    """Embedding, labeller, published means and latents follow the generator."""
    plan = tiny_plan(SCHEMA, recipe="understudy", steps=3, epsilon=5.0)
    fitter = plan.recipe.fitter(SCHEMA, seed=0, device=META)
    assert isinstance(fitter, EmbeddingFitter)
    door = Door(rows(), plan.run_charges, SeededNoise(0), insecure=True, rows=64)
    fitter.begin(door, None, lambda: None)
    with OneDevice():
        fitter.advance(door, None)
        fitter.advance(door, None)
    assert {value.device for value in fitter.generator.state_dict().values()} == {META}


def test_a_fit_that_takes_seconds_refuses_a_graphics_card() -> None:
    """An option without effect is an error: tables are fitted on the CPU whatever was asked for."""
    plan = tiny_plan(recipe="understudy", batch=None)
    with pytest.raises(PlanError, match="leave --device meta out"):
        plan.recipe.fitter(plan.schema, seed=0, device=META)  # type: ignore[arg-type]


def test_the_device_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Automatic takes a graphics card only if there is one; asking for one that is missing says what to do."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert chosen_device(Device.AUTO) == CPU
    with pytest.raises(PlanError, match="no graphics card"):
        chosen_device(Device.CUDA)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert chosen_device(Device.AUTO) == torch.device("cuda")
    assert chosen_device(Device.CPU) == CPU


def test_a_missing_device_is_refused_before_anything_is_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking for a graphics card that is not there reserves nothing and reads nothing."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    account = Mock()
    with pytest.raises(PlanError, match="no graphics card"):
        fit("no such file", tiny_plan(), account=account, device=Device.CUDA)
    assert account.mock_calls == []
