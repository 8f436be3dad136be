"""Builds our images, as `make images` and `make base` do: with docker where an engine answers, else with buildah.

An image's tag is a hash of all that goes into it. A tag that the registry holds is neither built nor pushed again.
"""
