"""While loops become scans: the frame of a loop, proven from structure."""
