"""Shared by the tests of the accountants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from understudy.privacy import accounting, pld, renyi

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def forget() -> Callable[[], None]:
    """Empties the accountants' caches, so that a planted bug is really executed."""

    def clear() -> None:
        for cached in (accounting._spent, pld._distribution, renyi._renyi):
            cached.cache_clear()

    return clear
