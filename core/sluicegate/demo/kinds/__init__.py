"""Kinds of scenes: each plays and judges one kind of policy on any broker."""
