"""The part of Ray's API that scripts for neuralforecast use to describe a search. Ray need not be installed.

`from neuro_divergent.compat.ray import tune`
"""
