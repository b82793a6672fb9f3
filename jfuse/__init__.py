"""jfuse: TensorFlow functions to proven, fused TensorFlow Lite files."""
