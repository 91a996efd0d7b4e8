"""How often something is compiled."""

import jax


def compilations(call):
    """How often XLA is asked for a program during the call."""
    count = 0

    def listen(event, duration, **_):
        nonlocal count
        count += event == "/jax/core/compile/backend_compile_duration"

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        call()
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    return count
