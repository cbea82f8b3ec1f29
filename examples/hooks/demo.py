"""Shows at the end of the demo how much room it took."""

from sluicegate.api import hookimpl


@hookimpl
def sluicegate_demo(directory):
    size = sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
    print(f"\n{directory} takes {size / 2**20:.1f} MiB")
    return [] if size < 2**30 else [f"the demo wrote {size} bytes"]
