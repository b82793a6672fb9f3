"""Running any graph on arrays: as one program of XLA, equation by equation, or in part in LiteRT."""
