"""Files made better by measurement: the best of several forms of one model."""
