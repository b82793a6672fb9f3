"""The TFLite builtins, each one function: called on arrays it computes, on graph variables it records an equation."""

if __name__ != "jfuse.kernels":
    # The bare name is another project's. Who looks whether that one is there (transformers does) finds a package
    # without a version; nothing can be imported from it.
    __path__ = []

    def __getattr__(name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ImportError("import jfuse.kernels: the bare name `kernels` is another project's")
