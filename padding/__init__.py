"""Compute which frame numbers to show where a clip reaches outside its video."""

from videoloader.padding.pad import CONSTANT_FRAME, MODES, Filling, Mode, Repeating, check_mode, pad

__all__ = ["CONSTANT_FRAME", "MODES", "Filling", "Mode", "Repeating", "check_mode", "pad"]
