"""Keeping what depends on real rows only, such as ceilings, so that the next evaluation need not train it again.

Files are named by the hash of everything they depend on and are readable by their owner only: they depend on private
rows and are as private as these.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy import files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

__all__ = ["fingerprint", "kept"]

Arrays = dict[str, npt.NDArray[Any]]


def fingerprint(*parts: object) -> str:
    """A name for values: arrays by their content, everything else by its text."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.shape} {part.dtype}".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        else:
            digest.update(f"{part!r};".encode())
    return digest.hexdigest()[:32]


def kept(
    folder: Path | None, name: str, compute: Callable[[], Mapping[str, npt.NDArray[Any]]], *depends: object
) -> Arrays:
    """What `compute` returns, from the folder if it is there, else computed and put there.

    Args:
        folder: a private folder, or None to keep nothing.
        name: the beginning of the file's name.
        compute: makes the arrays.
        depends: everything that the arrays depend on.
    """
    from safetensors.numpy import load_file, save

    if folder is None:
        return dict(compute())
    path = folder / f"{name}-{fingerprint(*depends)}.safetensors"
    if path.is_file():
        return dict(load_file(path))
    made = {key: np.ascontiguousarray(array) for key, array in compute().items()}
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    files.write_whole(path, save(made), private=True)
    return made
