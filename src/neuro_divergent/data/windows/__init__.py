"""Windows over a store: index, samplers, gather, augmentation, splits."""
