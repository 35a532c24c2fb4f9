"""The root machine of CORE, which composes all others."""
