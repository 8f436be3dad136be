"""The spec's field groups as values: a module for each, with frozen dataclasses and a `parse`. `service` composes them."""
