"""Parts of a graph that an accelerator has a function of its own for, put in a composite of that name."""
