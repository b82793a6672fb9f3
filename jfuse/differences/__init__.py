"""`jfuse diff`: finds the differences of two models without running them."""
