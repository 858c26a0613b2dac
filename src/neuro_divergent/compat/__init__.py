"""APIs of other packages, implemented with this library. Nothing else in the library imports this package."""
