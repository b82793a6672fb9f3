"""`jfuse bench`: compares jfuse's files, the official converter's and XLA on the user's own model."""
