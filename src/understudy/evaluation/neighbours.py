"""Exact nearest neighbours by blocked matrix products; no index, no approximation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["nearest", "nearest_distances", "radii", "within_any"]

Floats = npt.NDArray[np.floating[Any]]
BLOCK = 1000


def nearest(queries: Floats, points: Floats) -> tuple[Floats, npt.NDArray[np.intp]]:
    """For each query, the Euclidean distance to its nearest point and that point's number."""
    distances, places = [], []
    for _, squared in _blocks(queries, points):
        place = squared.argmin(axis=1)
        places.append(place)
        distances.append(squared[np.arange(len(place)), place])
    found = np.concatenate(places)
    # Differences of large squares lose digits; the winner's distance is computed directly.
    exact = np.linalg.norm(
        queries.reshape(len(queries), -1).astype(np.float64) - points.reshape(len(points), -1)[found], axis=1
    )
    return exact, found


def nearest_distances(queries: Floats, points: Floats) -> Floats:
    """For each query, the Euclidean distance to its nearest point."""
    return nearest(queries, points)[0]


def radii(points: Floats, k: int) -> Floats:
    """For each point, the distance to its k-th nearest other point."""
    found = []
    for rows, squared in _blocks(points, points):
        squared[np.arange(len(rows)), rows] = np.inf
        found.append(np.sqrt(np.maximum(np.partition(squared, k - 1, axis=1)[:, k - 1], 0)))
    return np.concatenate(found)


def within_any(queries: Floats, centres: Floats, radius: Floats) -> npt.NDArray[np.int64]:
    """For each query, in how many of the balls it lies."""
    squares = (radius.astype(np.float64) ** 2)[None, :]
    return np.concatenate([(squared <= squares).sum(axis=1) for _, squared in _blocks(queries, centres)])


def _blocks(queries: Floats, points: Floats) -> Iterator[tuple[npt.NDArray[np.intp], Floats]]:
    # Single precision for pictures, around a common centre, so that the squares do not swallow the differences.
    flat, flat_points = (side.reshape(len(side), -1) for side in (queries, points))
    kind = np.float64 if flat.shape[1] < 256 else np.float32
    centre = flat_points.mean(axis=0, dtype=np.float64)
    flat, flat_points = ((side - centre).astype(kind) for side in (flat, flat_points))
    norms = (flat_points**2).sum(axis=1)[None, :]
    for start in range(0, len(flat), BLOCK):
        block = flat[start : start + BLOCK]
        squared = (block**2).sum(axis=1)[:, None] + norms - 2 * (np.matmul(block, flat_points.T))
        yield np.arange(start, start + len(block)), np.maximum(squared, 0)
