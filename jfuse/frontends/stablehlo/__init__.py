"""Programs in StableHLO, as `jax.export` and jax2tf write them, as functions of jax arrays."""
