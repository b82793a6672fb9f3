"""The profile for long hunts: `pytest tests/properties --hypothesis-profile=hunt`, as long as one lets it."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "hunt", max_examples=100_000, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)
