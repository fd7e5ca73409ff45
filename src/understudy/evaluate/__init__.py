"""Evaluation: utility, fidelity and closeness of a release, each number with interval, ceiling and floor."""

from understudy.evaluate.evaluation import Synthesizer, evaluate
from understudy.evaluate.learners import Learner
from understudy.evaluate.result import Better, Evaluation, Group, Measure

__all__ = ["Better", "Evaluation", "Group", "Learner", "Measure", "Synthesizer", "evaluate"]
