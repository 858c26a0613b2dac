"""A suite: named checks that every member of a family must pass, written for the author of a new member."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError

Subject = TypeVar("Subject")
Check = Callable[[Subject], None]


class ConformanceFailure(AssertionError):  # noqa: N818  (a failed check, not an error of the library)
    """A check did not hold; the message says for whom, at which sizes, and what was expected."""


class Suite(Generic[Subject]):
    """The checks of one family by name, in the order in which they were defined."""

    def __init__(self, family: str, examples: Callable[[type[Subject]], tuple[Subject, ...]]) -> None:
        self.family = family
        self.examples = examples
        self.checks: dict[str, Check[Subject]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names that `run` takes."""
        return tuple(self.checks)

    def check(self, function: Check[Subject]) -> Check[Subject]:
        """Enter a function as the check of its name."""
        self.checks[function.__name__] = function
        return function

    def run(self, subject: type[Subject] | Subject, name: str) -> None:
        """Run one check on a description, or on every example of a class.

        Raises:
            ConformanceFailure: the check does not hold.
        """
        if name not in self.checks:
            raise ConfigError(f"a {self.family} has the checks {', '.join(self.names)}, but got name={name!r}")
        for example in self.examples(subject) if isinstance(subject, type) else (subject,):
            said = example.to_json(indent=None) if isinstance(example, Description) else repr(example)
            with expecting(f"{said}\n  must pass the check {name!r}"):
                self.checks[name](example)


@contextmanager
def expecting(what: str) -> Iterator[None]:
    """Say what was being tried when something failed, whatever it raises."""
    try:
        yield
    except ConformanceFailure as failure:
        raise ConformanceFailure(f"{what}:\n  {failure}") from failure.__cause__
    except Exception as error:  # a stranger's network may raise anything
        raise ConformanceFailure(f"{what}, but it raised {type(error).__name__}: {error}") from error


def require(holds: bool, message: str) -> None:
    """Fail with the message unless something holds."""
    if not holds:
        raise ConformanceFailure(message)
