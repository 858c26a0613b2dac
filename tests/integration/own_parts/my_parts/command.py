"""A command."""


def countdown(start: int, *, step: int = 1) -> int:
    """Count down to zero.

    Parameters
    ----------
    start
        Where to begin.
    step
        How far each step goes.
    """
    print(*range(start, -1, -step))  # noqa: T201
    return 0
