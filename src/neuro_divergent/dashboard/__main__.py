"""The process of a dashboard that `nd.Dashboard` starts."""

from neuro_divergent.dashboard.launch import serve_child

if __name__ == "__main__":
    serve_child()
