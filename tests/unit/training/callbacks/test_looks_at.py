"""What the library's own callbacks say they read of a step."""

from neuro_divergent.training import lr_range as lr_range  # brings a callback that is in no folder of callbacks
from neuro_divergent.training.callbacks import monitors as monitors
from neuro_divergent.training.callbacks import progress as progress
from neuro_divergent.training.callbacks import writers as writers
from neuro_divergent.training.callbacks.base import Callback


def test_every_callback_that_sees_steps_says_what_it_looks_at():
    """One that is silent may read gradients, and would switch the compiled step off for nothing."""
    own = [kind for kind in Callback.__subclasses__() if kind.__module__.startswith("neuro_divergent.")]
    seeing = [kind for kind in own if kind.on_batch_end is not Callback.on_batch_end and not kind.engine]
    assert seeing
    assert [kind.__name__ for kind in seeing if kind.looks_at is None] == []
