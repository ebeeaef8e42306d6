"""Plans how a list of transforms is carried out by conversion and by the backends."""
