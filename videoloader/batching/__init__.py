"""Makes batches: plans each clip, decodes the clips together, transforms and collates them, ahead of their use."""
