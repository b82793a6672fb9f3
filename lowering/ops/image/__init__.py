"""Images: resizing, crops, colours, blocks, detection."""
