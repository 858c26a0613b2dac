"""Optimizers and schedules of torch, by class and arguments."""

import torch
from neuralforecast import NeuralForecast
from neuralforecast.core import MLP
from neuralforecast.models.nhits import NHITS
from neuralforecast.utils import AirPassengersPanel
from torch.optim import lr_scheduler

shared = {"h": 12, "input_size": 24, "max_steps": 4}
schedules = {
    "cosine": (lr_scheduler.CosineAnnealingLR, {"T_max": 2}),
    "constant": (lr_scheduler.ConstantLR, {"factor": 0.5, "total_iters": 2}),
    "cycle": (lr_scheduler.OneCycleLR, {"max_lr": 0.01, "total_steps": 10}),
    "polynomial": (lr_scheduler.PolynomialLR, {"total_iters": 4}),
}
models = [
    MLP(alias=name, hidden_size=8, lr_scheduler=cls, lr_scheduler_kwargs=arguments, **shared)
    for name, (cls, arguments) in schedules.items()
]
models.append(
    NHITS(
        mlp_units=3 * [[8, 8]],
        optimizer=torch.optim.Adadelta,
        optimizer_kwargs={"rho": 0.8},
        lr_scheduler=lr_scheduler.StepLR,
        lr_scheduler_kwargs={"step_size": 2},
        **shared,
    )
)
nf = NeuralForecast(models=models, freq="ME")
nf.fit(df=AirPassengersPanel[["unique_id", "ds", "y"]])
assert nf.predict().notna().all().all()
assert models[-1].hparams["optimizer_kwargs"] == {"rho": 0.8}
assert models[0].hparams.lr_scheduler is lr_scheduler.CosineAnnealingLR
