"""What holds for every test: a slow machine, or one that stands still for a second, is no failure."""

from hypothesis import HealthCheck, settings

# Both would judge the machine: the time of one example, and the time in which the first ones are drawn.
settings.register_profile("machine-independent", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("machine-independent")
