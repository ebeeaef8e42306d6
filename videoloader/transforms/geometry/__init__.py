"""Coordinates, matrices and resampling of geometric transforms."""
