"""Numbers of a server in the text format of Prometheus."""

import numpy as np

from zoo.apps.live.hub import Hub

QUANTILES = (0.5, 0.95)


def prometheus(hub: Hub) -> str:
    """Return the numbers of a server: connections, streams, waiting audio, lateness."""
    lateness = np.array(hub.engine.lateness)
    lines = [
        *_metric("connections", "gauge", "Clients that are connected.", hub.connections),
        *_metric("places", "gauge", "Most clients at the same time.", hub.limits.streams),
        *_metric(
            "backlog_seconds", "gauge", "Audio that waits to be processed.", hub.engine.backlog
        ),
        *_metric("refused_total", "counter", "Refused clients.", hub.counters["refused"]),
        "# HELP simulzoo_live_streams_total Streams by how they have ended.",
        "# TYPE simulzoo_live_streams_total counter",
        *(
            f'simulzoo_live_streams_total{{ended="{ended}"}} {hub.counters[ended]}'
            for ended in ("ended", "left")
        ),
        "# HELP simulzoo_live_lateness_seconds Time from the arrival of a chunk to its output.",
        "# TYPE simulzoo_live_lateness_seconds summary",
        *(
            f'simulzoo_live_lateness_seconds{{quantile="{share}"}} '
            f"{np.quantile(lateness, share):.3f}"
            for share in QUANTILES
            if lateness.size
        ),
    ]
    return "\n".join(lines) + "\n"


def _metric(name: str, kind: str, meaning: str, value: float) -> list[str]:
    """Return the lines of a number."""
    full = f"simulzoo_live_{name}"
    return [f"# HELP {full} {meaning}", f"# TYPE {full} {kind}", f"{full} {value:g}"]
