"""How much one record may change the sum of gradients, as values that compute their own sensitivity.

A rule turns the norms of one record's gradient into the factors by which it is shrunk, and it alone
says how far the released sum can move: nobody types a sensitivity. The noise of a step is the noise
multiplier times `sensitivity(ADD_OR_REMOVE_ONE)`, so ε does not depend on any bound.

====================  ===================================================================  ================
rule                  what is clipped                                                       sensitivity
====================  ===================================================================  ================
GlobalClip            a record's whole gradient at C; fakes are free                        C
SeparateClip          the same, and each fake's gradient at a bound of its own              real bound
JointClip             a record and its fake partner as one gradient at C                    C
GroupedClip           each group of parameters at its own C_j (*)                           √ΣC_j²
WeightsBiasesClip     two groups: weights, biases (*)                                       √(C_w² + C_b²)
PublicAdaptiveClip    groups and bounds from a declared public batch, at every step (*)     √ΣC_j²
QuantileAdaptiveClip  global, the bound follows a private quantile of the norms             current C
MicrobatchClip        the mean gradient of several records at C                             2C
====================  ===================================================================  ================

(*) Fakes are free, or with `paired` each is one unit with its record, as in JointClip.

Fakes, their labels and their number do not depend on the private records; their gradient is
post-processing of earlier releases and moves no sensitivity. Where they are no partners, it is added after the noise
(`postprocess.fakes_gradient`) and never meets the records' sum.

Nothing here imports torch: methods work on the tensors that they are handed.
"""

from __future__ import annotations

from understudy.dpsgd.clipping.adaptive import PublicAdaptiveClip, QuantileAdaptiveClip, cluster
from understudy.dpsgd.clipping.fixed import (
    GlobalClip,
    GroupedClip,
    JointClip,
    MicrobatchClip,
    SeparateClip,
    WeightsBiasesClip,
)
from understudy.dpsgd.clipping.partition import SLACK, SUM_SLACK, Partition

__all__ = [
    "SLACK",
    "SUM_SLACK",
    "Clipping",
    "ConcreteClip",
    "GlobalClip",
    "GroupedClip",
    "JointClip",
    "MicrobatchClip",
    "Partition",
    "PublicAdaptiveClip",
    "QuantileAdaptiveClip",
    "SeparateClip",
    "WeightsBiasesClip",
    "cluster",
]

ConcreteClip = GlobalClip | SeparateClip | JointClip | GroupedClip | WeightsBiasesClip | MicrobatchClip
"""Rules that can be applied as they are."""

Clipping = ConcreteClip | PublicAdaptiveClip | QuantileAdaptiveClip
"""Every rule; the adaptive ones become a concrete rule at each step."""
