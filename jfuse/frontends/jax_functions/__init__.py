"""Functions of jax arrays as sources: traced to a jaxpr, which is walked equation by equation."""
