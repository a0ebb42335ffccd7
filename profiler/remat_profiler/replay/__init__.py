"""Replay: one real training iteration, run exactly as a schedule says, compared and measured.

`plan` reads a schedule and counts what the instance expects of it; `agreement` traces the instance's network
again and compares operator by operator; `values` evaluates nodes of the joint graph on real tensors;
`implementations` runs an operator the way a step names; `machine` executes steps; `reference` is the
framework's own iteration, and the comparison with it; `measure` takes times and peaks; `record` writes them;
`scheduled` trains a module with a schedule; `baselines` measures the framework's own ways; `batch` goes
through many schedules in slices.
"""

# Timed iterations; here because the command line reads it without torch.
DEFAULT_REPEATS = 10
