"""Trainings in several processes that this one starts."""
