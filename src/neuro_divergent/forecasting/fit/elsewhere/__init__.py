"""Trainings that run in other processes."""
