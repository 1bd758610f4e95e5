"""A step of training of a small network by PyTorch. Its threads are libgomp's."""

import torch

import victim

given = victim.options()
torch.manual_seed(1)
layers = torch.nn.Sequential(
    torch.nn.Linear(256, 512),
    torch.nn.ReLU(),
    torch.nn.Linear(512, 512),
    torch.nn.ReLU(),
    torch.nn.Linear(512, 10),
)
optimizer = torch.optim.SGD(layers.parameters(), lr=0.01)
loss = torch.nn.CrossEntropyLoss()
rows, classes = torch.randn(128, 256), torch.randint(0, 10, (128,))


def operate():
    """A step, whose loss is a number."""
    optimizer.zero_grad()
    found = loss(layers(rows), classes)
    found.backward()
    optimizer.step()
    assert torch.isfinite(found), "the loss is no number"
    return 0


victim.run(given, operate)
