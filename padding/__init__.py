"""Arithmetic on frame numbers: what a clip shows where it reaches outside its video."""

from videoloader.padding.pad import CONSTANT_FRAME, MODES, Filling, Mode, Repeating, check_mode, pad

__all__ = ["CONSTANT_FRAME", "MODES", "Filling", "Mode", "Repeating", "check_mode", "pad"]
