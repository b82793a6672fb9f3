"""`python -m jfuse`, which does what the command `jfuse` does."""

from jfuse.cli import main

if __name__ == "__main__":
    main()
