"""Measuring everything on a machine that is at hand for minutes: resumable, one slice at a time.

`convolutions` fills the table of algorithms, `networks` traces whole networks with measured operators,
`slices` runs both in child processes, so that a lost CUDA context or a crash costs one row, and packs
what was made. `HARVEST.md` says what to type.
"""
