"""How two tensors differ, made up: what reports and their JSON are tested with."""

from bisect_diverge.model.divergence import ElementStatistics

STATISTICS = ElementStatistics(
    dtype="float32",
    shape_a=(4, 64),
    shape_b=(4, 64),
    numel=256,
    differing=2,
    max_ulp=3,
    max_abs=2.4e-07,
    max_rel=1.1e-06,
    first_index=(2, 17),
    signature="reduction-order",
)
