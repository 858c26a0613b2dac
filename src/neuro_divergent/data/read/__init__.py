"""From a file or a frame to a store: roles, time stamps, gaps, missing values, exogenous columns."""
