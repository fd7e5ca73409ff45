"""What most synthesizers ask first: the number of records, and how frequent classes are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.synthesizers.shared.parts import LABELS, ROWS

if TYPE_CHECKING:
    from understudy.door.door import Door
    from understudy.door.query import Published
    from understudy.schema import Schema
    from understudy.synthesizers.protocol import Fixed, Share

__all__ = ["asked_labels", "class_shares", "label_counts", "label_weights", "row_count"]


def asked_labels(schema: Schema | None, asked: Fixed | Share) -> tuple[Fixed | Share, ...]:
    """The class counts, unless there are no classes or the schema declares how frequent they are."""
    if schema is None:
        return (asked,)
    return (asked,) if schema.label_classes is not None and schema.label_weights is None else ()


def row_count(door: Door) -> float:
    """The number of records that may be used as a divisor: declared public, or counted with noise."""
    from understudy.synthesizers.shared.queries import RowCount

    if door.rows is not None:
        return float(door.rows)
    door.counted = max(1.0, float(door.publish(ROWS, RowCount()).value))
    return door.counted


def label_counts(door: Door, schema: Schema) -> Published | None:
    """The noisy number of records of each class; None without classes, or if the schema declares their frequencies."""
    from understudy.synthesizers.shared.queries import LabelCounts

    classes = schema.label_classes
    if classes is None or schema.label_weights is not None:
        return None
    return door.publish(LABELS, LabelCounts(len(classes)))


def class_shares(counted: Published | None, schema: Schema) -> tuple[float, ...] | None:
    """The class frequencies: declared public in the schema, or those of noisy counts; None without classes."""
    if counted is None:
        return schema.label_weights
    positive = counted.value.clamp(min=1.0)
    return tuple(float(weight) for weight in positive / positive.sum())


def label_weights(door: Door, schema: Schema) -> tuple[float, ...] | None:
    """The class frequencies: declared public in the schema, or counted with noise; None without classes."""
    return class_shares(label_counts(door, schema), schema)
