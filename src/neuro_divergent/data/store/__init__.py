"""SeriesStore: columns end to end, offsets per series, in memory or on disk."""
