"""The clipping rules as values: sensitivities, partitions, clustering, the quantile's arithmetic."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from understudy.dpsgd.clipping import (
    SLACK,
    GlobalClip,
    GroupedClip,
    JointClip,
    MicrobatchClip,
    Partition,
    PublicAdaptiveClip,
    QuantileAdaptiveClip,
    SeparateClip,
    WeightsBiasesClip,
    cluster,
)
from understudy.dpsgd.clipping.adaptive import GroupBound
from understudy.errors import PlanError
from understudy.privacy.budget import Adjacency

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE


@pytest.mark.parametrize(
    ("rule", "added", "replaced"),
    [
        (GlobalClip(1.5), 1.5, 3.0),
        (SeparateClip(1.5, 9.0), 1.5, 3.0),
        (JointClip(1.5), 1.5, 3.0),
        (GroupedClip((3.0, 4.0), (("a",), ("b",))), 5.0, 10.0),
        (WeightsBiasesClip(3.0, 4.0), 5.0, 10.0),
        (MicrobatchClip(1.5, 4), 3.0, 3.0),
        (QuantileAdaptiveClip(0.5, 1.5, 0.2, 10.0), 1.5, 3.0),
    ],
)
def test_each_rule_computes_its_sensitivity(rule: GlobalClip, added: float, replaced: float) -> None:
    """Groups add in squares, microbatches count twice, fakes count nothing."""
    assert rule.sensitivity(ADD) == pytest.approx(added)
    assert rule.sensitivity(REPLACE) == pytest.approx(replaced)


def test_values_do_not_import_torch() -> None:
    """Planning stays fast: recipes name clipping, objectives and conditioning without loading torch."""
    code = (
        "import sys, understudy.dpsgd.clipping, understudy.dpsgd.objectives;"
        "import understudy.dpsgd.conditioning;"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, math.nan])
def test_impossible_bounds_are_refused(bound: float) -> None:
    """A bound of zero or infinity would mean no signal or no privacy."""
    with pytest.raises(PlanError, match="bound"):
        GlobalClip(bound)


def test_groups_must_cover_the_critic_exactly() -> None:
    """A parameter that no group clips would be released unbounded."""
    rule = GroupedClip((1.0, 1.0), (("a",), ("b",)))
    with pytest.raises(PlanError, match="c"):
        rule.partition(["a", "b", "c"])
    with pytest.raises(PlanError, match="a"):
        GroupedClip((1.0, 1.0), (("a",), ("a", "b"))).partition(["a", "b"])


def test_factors_shrink_to_just_below_the_bound() -> None:
    """A long gradient ends at C/(1 + slack), a short one is untouched, a broken one vanishes everywhere."""
    squares = {
        "a": torch.tensor([100.0, 0.25, math.inf, 0.0], dtype=torch.float64),
        "b": torch.tensor([4.0, 0.25, 0.1, math.nan], dtype=torch.float64),
    }
    factors = Partition((("a",), ("b",)), (1.0, 2.0)).factors(squares)
    assert factors["a"].tolist() == pytest.approx([0.1 / (1 + SLACK), 1.0, 0.0, 0.0])
    assert factors["b"].tolist() == pytest.approx([1.0 / (1 + SLACK), 1.0, 0.0, 0.0])


def test_weights_and_biases_are_told_apart_by_name() -> None:
    """Names that merely contain the word are weights; a critic without biases has one group."""
    rule = WeightsBiasesClip(1.0, 2.0)
    assert rule.partition(["0.weight", "0.bias", "biased.weight"]).groups == (
        ("0.weight", "biased.weight"),
        ("0.bias",),
    )
    assert rule.partition(["w"]) == Partition((("w",),), (1.0,))


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=7), st.integers(1, 7))
def test_cluster_merges_the_closest_pair_by_exhaustive_search(bounds: list[float], groups: int) -> None:
    """The sorted-neighbour shortcut gives the bounds of Algorithm 2 written out over all pairs."""
    expected = list(bounds)
    while len(expected) > groups:
        i, j = min(
            itertools.combinations(range(len(expected)), 2),
            key=lambda pair: (
                max(expected[pair[0]], expected[pair[1]]) / min(expected[pair[0]], expected[pair[1]])
            ),
        )
        merged = math.hypot(expected[i], expected[j])
        expected = [b for k, b in enumerate(expected) if k not in {i, j}] + [merged]
    rule = cluster({f"p{i}": b for i, b in enumerate(bounds)}, groups)
    assert len(rule.bounds) == len(expected)
    assert math.hypot(*rule.bounds) == pytest.approx(math.hypot(*bounds))
    if len(set(bounds)) == len(bounds) and len(bounds) <= groups + 1:
        assert sorted(rule.bounds) == pytest.approx(sorted(expected))


def test_public_bounds_become_a_grouped_rule() -> None:
    """Biases are one group, weights are merged by similarity, and vanishing norms are lifted to the floor."""
    rule = PublicAdaptiveClip(groups=2, least=0.01).adapted(
        {"0.weight": 1.0, "0.bias": 3.0, "1.weight": 1.1, "1.bias": 4.0, "2.weight": 0.0}
    )
    assert dict(zip(rule.groups, rule.bounds, strict=True)) == pytest.approx(
        {("2.weight",): 0.01, ("0.weight", "1.weight"): math.hypot(1.0, 1.1), ("0.bias", "1.bias"): 5.0}
    )
    with pytest.raises(PlanError, match="adapted"):
        PublicAdaptiveClip(2).sensitivity(ADD)


def test_a_group_may_have_the_mean_of_its_members_bounds() -> None:
    """As section 4.4 of the dp-gan paper says, against its Algorithm 2; who is grouped with whom stays the same."""
    norms = {"0.weight": 1.0, "0.bias": 3.0, "1.weight": 1.1, "1.bias": 4.0, "2.weight": 9.0}
    root, mean = (PublicAdaptiveClip(2, group_bound=one).adapted(norms) for one in GroupBound)
    assert root.groups == mean.groups
    assert dict(zip(mean.groups, mean.bounds, strict=True)) == pytest.approx(
        {("0.weight", "1.weight"): 1.05, ("2.weight",): 9.0, ("0.bias", "1.bias"): 3.5}
    )
    assert mean.sensitivity(ADD) == pytest.approx(math.hypot(1.05, 9.0, 3.5))


def test_public_bounds_can_leave_the_biases_among_the_weights() -> None:
    """Without separate biases, every parameter is merged by the similarity of bounds alone."""
    norms = {"0.weight": 1.0, "0.bias": 1.1, "1.weight": 9.0, "1.bias": 8.0}
    rule = PublicAdaptiveClip(groups=2, separate_biases=False).adapted(norms)
    assert {frozenset(group) for group in rule.groups} == {
        frozenset({"0.weight", "0.bias"}),
        frozenset({"1.weight", "1.bias"}),
    }
    assert not rule.paired
    for apart in (True, False):
        assert PublicAdaptiveClip(groups=2, separate_biases=apart, paired=True).adapted(norms).paired
    one = PublicAdaptiveClip(groups=1, separate_biases=False).adapted(norms)
    assert one.bounds == pytest.approx((math.hypot(*norms.values()),))


@given(st.floats(0.3, 5.0), st.floats(3.0, 100.0))
def test_gradients_and_count_share_one_multiplier(sigma: float, count_noise: float) -> None:
    """In units of its noise, one record moves (gradient, count) together by exactly 1/σ."""
    rule = QuantileAdaptiveClip(0.5, 2.0, 0.2, count_noise)
    for_gradients = 1.0 / rule.gradient_multiplier(sigma)
    for_count = 0.5 / count_noise
    assert math.hypot(for_gradients, for_count) == pytest.approx(1.0 / sigma)


def test_a_count_that_spends_everything_is_refused() -> None:
    """With 2s ≤ σ nothing would be left for the gradients."""
    with pytest.raises(PlanError, match="count_noise"):
        QuantileAdaptiveClip(0.5, 1.0, 0.2, 0.5).gradient_multiplier(1.0)


def test_the_bound_does_not_fall_through_the_floor() -> None:
    """A loss that has come to rest has all records within any bound; it stops at the floor, and can rise again."""
    rule = QuantileAdaptiveClip(0.5, 2.0, 0.2, 10.0, floor=0.01)
    bound = 2.0
    for _ in range(300):
        bound = rule.next_bound(bound, 50.0, 100.0)
    assert bound == 0.02
    assert rule.next_bound(bound, -50.0, 100.0) > bound
    assert QuantileAdaptiveClip(0.5, 2.0, 0.2, 10.0).next_bound(1e-9, 50.0, 100.0) > 1e-4
    for wrong in (0.0, -1.0, 1.5, math.nan):
        with pytest.raises(PlanError, match="floor"):
            QuantileAdaptiveClip(0.5, 2.0, 0.2, 10.0, floor=wrong)


def test_the_bound_moves_towards_the_quantile() -> None:
    """Too many records within the bound lower it; too few raise it; the public divisor is the denominator."""
    rule = QuantileAdaptiveClip(0.5, 1.0, 0.2, 10.0)
    assert rule.next_bound(1.0, 50.0, 100.0) == pytest.approx(math.exp(-0.1))
    assert rule.next_bound(1.0, -50.0, 100.0) == pytest.approx(math.exp(0.1))
    assert rule.next_bound(1.0, 0.0, 100.0) == pytest.approx(1.0)
