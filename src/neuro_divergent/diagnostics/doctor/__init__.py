"""Verdicts about a training: evidence is gathered once, one small function per cause judges it."""
