"""Traces one training iteration of a PyTorch network into an instance file of `bench`.

The pieces, each ignorant of the ones after it: `models` (what can be traced), `capture` (the joint
graph of AOTAutograd), `aliasing` (which value lives in which storage), `trace` (operators and
storages with their roles), `costs` (a time and a workspace per operator), `instance` (the file),
`check` (an independent self-check), `cli`.
"""

__version__ = "0.1.0"
