"""One module for each library in the comparison; each is imported in a process of its own."""
