"""A training in two processes, for tests that disturb it. Prints the hash of the weights, or the error."""

from __future__ import annotations

import hashlib
import json
import sys

import neuro_divergent as nd


def main(directory: str, settings: str, resume: str = "") -> None:
    options = json.loads(settings)
    steps = options.pop("steps", 300)
    model = nd.MLP(h=12, input_size=24, hidden_size=16, dropout=0.1)
    config = nd.TrainingConfig(
        max_steps=steps,
        batch_size=64,
        early_stopping=None,
        refit=None,
        progress=False,
        checkpoints=nd.Checkpoints(directory, every_n_steps=20, keep_last=3),
        distributed=nd.Distributed(**{"exact": True, "timeout": 10.0, **options}),
    )
    try:
        fitted = model.fit(nd.samples.hourly_panel(4, 300), config, resume=resume or None)
    except nd.NeuroDivergentError as error:
        sys.stdout.write(json.dumps({"error": type(error).__name__, "text": str(error)}) + "\n")
        return
    weights = b"".join(tensor.numpy().tobytes() for tensor in fitted.network.state_dict().values())
    found = {"hash": hashlib.sha256(weights).hexdigest(), "steps": len(fitted.history.step_loss)}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
