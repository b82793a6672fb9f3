"""States: values that last from one call to the next, and where the file keeps them."""
