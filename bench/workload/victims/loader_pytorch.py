"""A batch from PyTorch's DataLoader, and a step of training with it. The loader has a worker process for each thread
of the step."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import victim

ROWS, WIDTH = 64, 256
given = victim.options()
torch.manual_seed(1)
mix = torch.randn(WIDTH, WIDTH)


class Rows(Dataset):
    """Rows that are computed when they are asked for, as images are decoded."""

    def __len__(self):
        return 1 << 40

    def __getitem__(self, number):
        row = torch.sin(mix @ torch.full((WIDTH,), number % 97 / 97))
        return row, number % 10


class InOrder:
    """The numbers of all rows: a sampler that makes no list of them."""

    def __iter__(self):
        return iter(range(1 << 40))


layers = nn.Sequential(nn.Linear(WIDTH, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.SGD(layers.parameters(), lr=0.01)
loss = nn.CrossEntropyLoss()
batches = iter(DataLoader(Rows(), ROWS, sampler=InOrder(), num_workers=given.threads))
workers = [worker.pid for worker in batches._workers]
done = 0


def operate():
    """A step with the batch that is next, and no other one."""
    global done
    rows, classes = next(batches)
    assert classes.tolist() == [number % 10 for number in range(done, done + ROWS)], "another batch"
    done += ROWS
    victim.train(optimizer, loss, layers, rows, classes)
    return 0


victim.run(given, operate, lambda: victim.cpu_ns(*workers))
