"""Features computed from the calendar and the target."""
