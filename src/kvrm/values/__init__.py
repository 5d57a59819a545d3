"""Values: fixed-width bit vectors whose operations fold on ints and emit on everything else."""

from kvrm.values import primitives as primitives_  # noqa: F401 - registers the rows
from kvrm.values.bits import (
    Bits,
    Lift,
    Node,
    Primitive,
    Stage,
    StagingError,
    bits,
    concat,
    cond,
    from_lanes,
)

__all__ = [
    "Bits",
    "Lift",
    "Node",
    "Primitive",
    "Stage",
    "StagingError",
    "bits",
    "concat",
    "cond",
    "from_lanes",
]
