"""Index image files, each one frame, from their own headers, without decoding them."""

from videoloader.indexing.images.alone import decodes_alone
from videoloader.indexing.images.frame_times import tell_of_frame_times
from videoloader.indexing.images.index import image_of_a_pixel, index_images, is_jpeg
from videoloader.indexing.images.jpeg import is_cut_off

__all__ = ["decodes_alone", "image_of_a_pixel", "index_images", "is_cut_off", "is_jpeg", "tell_of_frame_times"]
