"""Store `fixed:NAME=RATE`: policies that come from the URL itself and are gone with the process."""

from sluicegate.api import Level, MemoryStore, hookimpl


@hookimpl
def sluicegate_metadata_store(url):
    scheme, _, text = url.partition(":")
    if scheme != "fixed":
        return None
    store = MemoryStore()
    topic, _, rate = text.partition("=")
    store.set(Level.TOPIC, topic, "max_publish_rate", int(rate), actor="url")
    return store
