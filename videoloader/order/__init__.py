"""The order of clips, and the rank of each: numbers only, no pixels."""
