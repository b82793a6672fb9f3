"""`jfuse diff`: in what two models differ, without running them."""
