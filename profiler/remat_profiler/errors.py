"""The one exception that users are meant to see."""


class ProfilerError(Exception):
    """A request that cannot be met; its text is one line saying what was expected and found."""
