"""Working files of a run: a few facts as a dataclass and tensors beside them, for the owner's eyes only.

They are written whole or not at all, and read back as the one dataclass that is asked for.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar

from safetensors import SafetensorError
from safetensors.torch import load, save

from understudy import codec, files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torch import Tensor

    from understudy.errors import UnderstudyError

__all__ = ["facts_and_tensors", "write_working_file"]

Facts = TypeVar("Facts")
_KEY = "understudy"


def write_working_file(
    path: Path, facts: object, tensors: Mapping[str, Tensor], *, error: type[UnderstudyError]
) -> None:
    """Write the file under a temporary name, force it to disk, and put it in place.

    Raises:
        UnderstudyError: of the given kind: the disk refuses, and the older file is untouched.
    """
    blob = save(
        {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()},
        metadata={_KEY: codec.to_json(facts)},
    )
    files.write_whole(path, blob, error=error, private=True)


def facts_and_tensors(
    kind: type[Facts], path: Path, blob: bytes, what: str, *, error: type[UnderstudyError]
) -> tuple[Facts, dict[str, Tensor]]:
    """What these bytes of a file hold.

    Args:
        kind: the class of the facts; its field `format` must have the default of this version.
        path: for messages.
        blob: the file.
        what: such a file in words, such as "a checkpoint".
        error: raised if they are damaged or of another format.
    """
    try:
        tensors = load(blob)
        header = json.loads(blob[8 : 8 + int.from_bytes(blob[:8], "little")])
    except (SafetensorError, ValueError, KeyError, OverflowError) as problem:
        raise error(f"{path} is not {what}: {problem}.") from problem
    metadata = header.get("__metadata__") or {}
    if _KEY not in metadata:
        raise error(f"{path} is not {what} of a run.")
    facts = codec.from_json(kind, metadata[_KEY], error=error)
    found, known = vars(facts)["format"], vars(kind)["format"]
    if found != known:
        raise error(f"{path} has format {found}; this version reads format {known}.")
    return facts, tensors
