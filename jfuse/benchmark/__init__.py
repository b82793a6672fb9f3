"""`jfuse bench`: jfuse's files, the official converter's and XLA beside one another, on the user's own model."""
