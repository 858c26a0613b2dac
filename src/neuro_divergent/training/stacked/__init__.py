"""Many small trainings as one stacked computation."""
