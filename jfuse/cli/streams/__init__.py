"""Where standard streams lead while a command works."""
