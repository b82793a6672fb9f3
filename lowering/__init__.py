"""How TensorFlow ops, composites and recovered functions are spelled in TFLite ops."""

if __name__ != "jfuse.lowering":
    raise ImportError("import jfuse.lowering: the bare name `lowering` is not jfuse's")
