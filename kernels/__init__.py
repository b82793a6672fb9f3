"""The TFLite builtins, each one function: called on arrays it computes, on graph variables it records an equation."""

if __name__ != "jfuse.kernels":
    raise ImportError("import jfuse.kernels: the bare name `kernels` is another project's")
