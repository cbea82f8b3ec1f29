"""Publish rates that follow the pressure on a broker: a controller, off by default, experimental."""
