"""Danube's part of `sluicegate demo`; needs the extra `danube`."""

from sluicegate_danube.demo.show import DanubeDemo

__all__ = ["DanubeDemo"]
