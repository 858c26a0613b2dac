"""A suite: named checks that every member of a family must pass. Messages are for the author of a new member."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError

Subject = TypeVar("Subject")
Check = Callable[[Subject], None]


class ConformanceFailure(AssertionError):  # noqa: N818  (a failed check, not an error of the library)
    """A check failed. The message names the subject, the sizes, and what was expected."""


class Suite(Generic[Subject]):
    """The checks of one family by name, in the order in which they were defined."""

    def __init__(self, family: str, examples: Callable[[type[Subject]], tuple[Subject, ...]]) -> None:
        self.family = family
        self.examples = examples
        self.checks: dict[str, Check[Subject]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names that `run` accepts."""
        return tuple(self.checks)

    def check(self, function: Check[Subject]) -> Check[Subject]:
        """Register a function as the check of its name."""
        self.checks[function.__name__] = function
        return function

    def run(self, subject: type[Subject] | Subject, name: str) -> None:
        """Run one check on a description, or on every example of a class.

        Raises:
            ConformanceFailure: the check failed.
        """
        if name not in self.checks:
            raise ConfigError(f"the checks of a {self.family} are {', '.join(self.names)}, but got name={name!r}")
        for example in self.examples(subject) if isinstance(subject, type) else (subject,):
            said = example.to_json(indent=None) if isinstance(example, Description) else repr(example)
            with expecting(f"{said}\n  must pass the check {name!r}"):
                self.checks[name](example)


@contextmanager
def expecting(what: str) -> Iterator[None]:
    """Add what was being checked to any failure or error inside the block."""
    try:
        yield
    except ConformanceFailure as failure:
        raise ConformanceFailure(f"{what}:\n  {failure}") from failure.__cause__
    except Exception as error:  # a foreign network may raise anything
        raise ConformanceFailure(f"{what}, but it raised {type(error).__name__}: {error}") from error


def require(holds: bool, message: str) -> None:
    """Fail with the message unless `holds` is true."""
    if not holds:
        raise ConformanceFailure(message)
