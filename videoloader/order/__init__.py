"""Numbers the clips of a data set, orders them for each epoch, and deals them to ranks."""
