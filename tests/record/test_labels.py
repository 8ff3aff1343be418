"""Labels that enter no module are recorded where a loss function is given them, and only there."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it
from torch.utils.checkpoint import checkpoint

from bisect_diverge.record.labels import labels_of
from bisect_diverge.store.reader import Run
from tests.record.support import bits, recording

X, CLASSES = torch.rand(4, 3), torch.tensor([0, 2, 1, 0])


def outputs() -> torch.Tensor:
    """Return what a model makes: with a gradient."""
    return (X * torch.ones(3, requires_grad=True)).sigmoid() * 0.9


@pytest.mark.parametrize(
    ("loss", "label"),
    [
        (F.cross_entropy, CLASSES),
        (F.multi_margin_loss, CLASSES),
        (F.mse_loss, X),
        (F.smooth_l1_loss, X),
        (F.huber_loss, X),
        (F.binary_cross_entropy, X),
        (F.binary_cross_entropy_with_logits, X),
        (F.soft_margin_loss, X),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_loss_functions_compare_with(loss, label):
    """The target is found behind sums, weights and means, once, with its bits."""
    total = 0.5 * loss(outputs(), label, reduction="none").mean() + 1
    assert [(slot, bits(found)) for slot, found in labels_of([total])] == [("input.target", bits(label))]


def test_what_is_no_label():
    """A side with a gradient, what saves no target, and a graph that is gone."""
    assert list(labels_of([F.mse_loss(outputs(), outputs())])) == []
    assert list(labels_of([F.l1_loss(outputs(), X), (outputs() - X).square().mean(), X])) == []
    loss = F.mse_loss(outputs(), X)
    loss.backward()
    assert list(labels_of([loss])) == []


def test_looking_runs_no_saved_tensor_hook():
    """A checkpointed loss function is not computed again."""
    calls = []

    def compute(made: torch.Tensor) -> torch.Tensor:
        calls.append(made)
        return F.mse_loss(made, X)

    loss = checkpoint(compute, outputs(), use_reentrant=False)
    assert list(labels_of([loss])) == []
    assert len(calls) == 1


def test_rows_are_made_of_labels_that_no_row_has(tmp_path):
    """Labels from a list have a row before the loss; those of a batch or a criterion have theirs."""
    model, criterion = nn.Linear(3, 3), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    many = CLASSES.repeat(2)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, CLASSES), batch_size=4)
    with recording(tmp_path / "run"):
        F.cross_entropy(model(X), many[4:]).backward()
        optimizer.step()
        x, y = next(iter(loader))
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        criterion(model(X), many[:4]).backward()
        optimizer.step()
    with Run(tmp_path / "run") as run:
        file = run.first
        texts = [str(file.address(row)) for row in range(len(file.events))]
        found = [text for text in texts if ":loss#" in text]
        assert found == [
            "r0/0/0/data/model:loss#0:input.target",
            "r0/0/0/forward/model:loss#0:value",
            "r0/1/0/forward/model:loss#0:value",
            "r0/2/0/forward/criterion:loss#0:value",
        ]
        assert file.tensor(texts.index(found[0])).tolist() == CLASSES.tolist()
