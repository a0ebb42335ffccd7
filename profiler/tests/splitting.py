"""Ways to take a tensor apart into views of it, and a network that does so."""

import torch

SEVERAL_VIEWS = {
    "split": lambda x: torch.split(x, 4, -1),
    "split-sizes": lambda x: torch.split(x, [4, 4, 4], -1),
    "chunk": lambda x: x.chunk(3, -1),
    "unbind": lambda x: x.unflatten(-1, (3, 4)).unbind(-2),
    "tensor-split": lambda x: torch.tensor_split(x, 3, -1),
    "unsafe-split": lambda x: torch.unsafe_split(x, 4, -1),
    "unsafe-split-sizes": lambda x: torch.unsafe_split_with_sizes(x, [4, 4, 4], -1),
    "unsafe-chunk": lambda x: torch.unsafe_chunk(x, 3, -1),
}


class Parts(torch.nn.Module):
    """The product of one part of a row with the sine of another, and a linear layer of that."""

    def __init__(self, parts):
        super().__init__()
        self.parts, self.first, self.last = parts, torch.nn.Linear(5, 12), torch.nn.Linear(4, 3)

    def forward(self, x):
        first, second, _ = self.parts(self.first(x))
        return self.last(first * second.sin())
