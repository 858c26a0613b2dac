"""What to write for words that other documents have: each is answered, none is an alias."""

NAMES = {
    "BlockedTimeSeriesCrossValidator": "nd.TimeSeriesSplit(block_size=7, series_splits=5)",
    "CallbackResult": "state.stop('why') in a callback, or nothing to go on",
    "CheckpointCallback": "nd.TrainingConfig(checkpoints=nd.Checkpoints(path, every_n_epochs=n))",
    "CheckpointConfig": "nd.Checkpoints(directory, every_n_epochs=10, keep_last=5)",
    "CustomCrossValidator": "nd.cross_validation(models, data, splitter=function, metrics=[...])",
    "DeepARTrainer": "nd.DeepAR(h=12, input_size=24).fit(data, config)",
    "EarlyStoppingCallback": "nd.TrainingConfig(early_stopping=nd.EarlyStopping(patience=n, min_delta=delta))",
    "FaultTolerantTraining": "nd.TrainingConfig(fault_tolerance=nd.FaultTolerance(), checkpoints=path)",
    "GradientClipping": "nd.ClipByNorm(1.0) or nd.ClipByValue(0.5)",
    "ClusterConfig": "nd.Cluster(nodes=[nd.Node(address, gpus=[0, 1], role='master'), ...])",
    "DistributedTraining": "nd.TrainingConfig(distributed=nd.Distributed(processes=2))",
    "GPUConfig": "nd.Distributed(devices=[0, 1], strategy='ddp', batch_size_per_device=256)",
    "HyperparameterSpace": "nd.SearchSpace(learning_rate=nd.loguniform(1e-5, 1e-1), hidden_size=nd.choice(64, 128))",
    "LearningCurveAnalyzer": "nd.LearningCurves(train_sizes=[0.2, 0.5, 1.0], cv_folds=5, scoring='mae')",
    "LearningRateScheduler": "a schedule: nd.Constant, nd.StepDecay, nd.ExponentialDecay, nd.CosineAnnealing, ...",
    "LoggingCallback": "nd.TrainingConfig(log_every=1), or nd.CsvLog(path=...) in callbacks",
    "LossFunction": "a loss: nd.MAE, nd.MSE, nd.Huber, nd.MQLoss, nd.Weighted, nd.DistributionLoss, ...",
    "LossScaling": "nd.TrainingConfig(precision='fp16', loss_scale='dynamic')",
    "LSTMConfig": "nd.LSTM(h=12, input_size=24, ...)",
    "MultiObjectiveOptimization": "nd.MultiObjectiveSearch(space, model=model, objectives={...})",
    "NHITSTrainer": "nd.NHITS(h=12, input_size=24).fit(data, config)",
    "NodeConfig": "nd.Node('10.0.0.10:29500', gpus=[0, 1], role='master')",
    "NegativeLogLikelihood": "nd.DistributionLoss(distribution='Normal')",
    "OptimizerConfig": "nd.AdamW(learning_rate=1e-3, weight_decay=0.01)",
    "StepLR": "nd.StepDecay(every=30, factor=0.1)",
    "TimeSeriesCrossValidator": "nd.TimeSeriesSplit(n_splits=5, gap=0, purge=0) in nd.cross_validation(splitter=...)",
    "TimeSeriesDataset": "nd.TimeSeriesDataFrame, or nd.Windows for windows",
    "accumulate_gradients": "nd.TrainingConfig(accumulate_gradients=4)",
    "clip_norm": "nd.ClipByNorm(1.0)",
    "clip_value": "nd.ClipByValue(0.5)",
    "fit_with_config": "model.fit(data, config)",
    "freeze": "nd.TrainingConfig(freeze=['hidden1'])",
    "load_checkpoint": "nd.load(path), or nd.resume_training(path, data) to go on training",
    "load_model": "nd.load(path)",
    "save_checkpoint": "state.save_checkpoint(path) in a callback, or trainer.save_checkpoint(path)",
    "save_model": "forecaster.save(path)",
}
"""Names that people look for in `neuro_divergent`, and what to write instead."""

FIELDS = {
    "optimizer": {"lr": "write learning_rate={}", "decay": "write weight_decay={}"},
    "Checkpoints": {
        "save_frequency": "write every_n_epochs={}, or every_n_steps",
        "strategy": "write every_n_epochs, every_n_steps, on_best=True or keep_best=3",
        "metadata": "every checkpoint has the configuration, the position and the versions by itself",
    },
    "Distributed": {
        "batch_size_per_gpu": "write batch_size_per_device={}",
        "gradient_synchronization": "write synchronization={}",
    },
    "FaultTolerance": {
        "auto_checkpoint": "write nd.TrainingConfig(checkpoints=nd.Checkpoints(...)) beside it",
        "graceful_shutdown": "every training with checkpoints saves when it is told to end",
    },
    "GradientAnalyzer": {
        "layer_analysis": "write layers={}",
        "gradient_flow_visualization": "write flow={}, and gradient_report().plot_flow(path) after the training",
    },
    "LearningCurves": {"scoring_metric": "write scoring={}"},
    "Quantile": {"quantiles": "write nd.MQLoss(quantiles={})"},
    "Weighted": {"base": "write loss={}", "weight_function": "write by=function, a function of (time, value)"},
    "TimeSeriesSplit": {
        "gap_size": "write gap={}",
        "purge_size": "write purge={}",
        "expanding_window": 'write window="expanding", or the length of a window that slides along',
    },
}
"""Fields that people look for in a description, by its kind or family, and what to do instead; {} is the value."""

HOOKS = {
    "on_batch_begin": "on_batch_start",
    "on_before_optimizer_step": "on_gradients",
    "on_epoch_begin": "on_epoch_start",
    "on_step_begin": "on_batch_start",
    "on_step_end": "on_batch_end",
    "on_step_start": "on_batch_start",
    "on_train_batch_begin": "on_batch_start",
    "on_train_batch_end": "on_batch_end",
    "on_train_batch_start": "on_batch_start",
    "on_train_begin": "on_fit_start",
    "on_train_end": "on_fit_end",
    "on_train_epoch_end": "on_epoch_end",
    "on_train_epoch_start": "on_epoch_start",
    "on_train_start": "on_fit_start",
    "on_training_end": "on_fit_end",
    "on_training_start": "on_fit_start",
    "on_validation_epoch_end": "on_validation_end",
    "on_validation_epoch_start": "on_validation_start",
}
"""Hooks of other libraries' callbacks, and ours."""
