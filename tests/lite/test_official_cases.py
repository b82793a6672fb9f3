"""Cases of the official converter's tests, asserted in our own words: tables, infinities, Keras models that were called."""
