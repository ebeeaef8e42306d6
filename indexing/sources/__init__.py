"""Read a video's bytes from files, URLs, archives, folders of images and memory, through one interface."""
