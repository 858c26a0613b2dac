"""Reads a file or a frame into a store: roles, time stamps, gaps, missing values, exogenous columns."""
