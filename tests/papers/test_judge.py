"""The judge of inception scores is trained once, kept, and reported with its accuracy and hash."""

from __future__ import annotations

from pathlib import Path

from understudy.papers.judge import train_judge


def test_the_judge_is_trained_once_and_read_from_the_cache(tmp_path: Path) -> None:
    """A second call gives the same weights and accuracy, which lies in its interval and well above chance."""
    first = train_judge("digits", tmp_path)
    assert len(list(tmp_path.glob("*.safetensors"))) == 1
    assert train_judge("digits", tmp_path) == first
    assert first.low <= first.accuracy <= first.high
    assert first.accuracy > 0.5
    fewer = train_judge("digits", tmp_path, rows=200)
    assert fewer.sha256 != first.sha256
