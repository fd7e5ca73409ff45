"""Evaluation: utility, fidelity and closeness of a release, each number with interval, ceiling and floor."""

from understudy.evaluation.learners import Learner
from understudy.evaluation.result import Better, Evaluation, Group, Measure
from understudy.evaluation.run import Synthesizer, evaluate

__all__ = ["Better", "Evaluation", "Group", "Learner", "Measure", "Synthesizer", "evaluate"]
