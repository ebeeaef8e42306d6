"""Index image files, each one frame, from their own headers, without decoding them."""
