"""When the generator moves: after a fixed or a rising number of critic steps."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.recipes.parts import FixedCriticSteps, RisingCriticSteps

__all__ = ["Turns"]


@dataclass
class Turns:
    """Counts critic steps and says when the generator's turn comes.

    The rising rule looks at the critic's accuracy on fakes only. Fakes do not depend on private records except
    through released gradients, so the rule is post-processing and costs nothing.
    """

    rule: FixedCriticSteps | RisingCriticSteps
    since: int = 0
    level: int = 0
    average: float = 1.0
    at_level: int = 0

    def due(self) -> bool:
        """Count one critic step; whether the generator moves now."""
        self.since += 1
        if self.since < self._wanted():
            return False
        self.since = 0
        return True

    def _wanted(self) -> int:
        match self.rule:
            case FixedCriticSteps(count=count):
                return count
            case RisingCriticSteps(counts=counts):
                return counts[self.level]

    def watch(self, accuracy_on_fakes: float) -> None:
        """Take note of how well the critic tells fakes, once per generator step."""
        match self.rule:
            case FixedCriticSteps():
                return
            case RisingCriticSteps(counts=counts, threshold=threshold, grace=grace, averaging=averaging):
                self.average = averaging * self.average + (1 - averaging) * accuracy_on_fakes
                self.at_level += 1
                if self.at_level >= grace and self.average <= threshold and self.level + 1 < len(counts):
                    self.level += 1
                    self.at_level = 0
