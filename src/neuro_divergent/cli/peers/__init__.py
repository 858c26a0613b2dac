"""Other libraries, measured beside this one by `bench`."""
