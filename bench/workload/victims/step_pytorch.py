"""A step of training of a small network by PyTorch: dense layers, or convolutions. Its threads are libgomp's."""

import torch
from torch import nn

import victim

given = victim.options(layers="dense")
torch.manual_seed(1)
if given.layers == "dense":
    rows = torch.randn(128, 256)
    layers = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
else:
    rows = torch.randn(16, 3, 32, 32)
    layers = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 8 * 8, 10),
    )
classes = torch.randint(0, 10, (len(rows),))
optimizer = torch.optim.SGD(layers.parameters(), lr=0.01)
loss = nn.CrossEntropyLoss()


def operate():
    """A step, whose loss is a number."""
    victim.train(optimizer, loss, layers, rows, classes)
    return 0


victim.run(given, operate)
