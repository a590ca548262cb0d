"""The job of ``python -m zoo live``: from a configuration to a server.

The settings are checked before the networks are imported, which takes seconds.
"""

from importlib.util import find_spec

from zoo.apps.live.settings import Address, Limits
from zoo.base.errors import ZooError
from zoo.base.kinds import described, fits, kind_of
from zoo.base.machine.cores import check_machine
from zoo.config import Config, build, plain

NEEDED = ("starlette", "uvicorn", "websockets")
KINDS = {
    "host": str,
    "port": int,
    "token": str | None,
    "origins": list[str],
    "certificate": str | None,
    "certificate_key": str | None,
    "browser": bool,
    "talks": int | None,
    "split": str,
}


def live(cfg: Config) -> None:
    """Serve the systems of a configuration until Ctrl-C.

    Raises:
        ZooError: bad settings, or the packages of the extra ``live`` are not installed.
    """
    check_machine(seed=cfg.seed, threads=cfg.threads, device=cfg.device)
    for key, hint in KINDS.items():
        kind = kind_of(hint)
        if not fits(value := plain(cfg)[key], kind):
            raise ZooError(f"{key} must be {described(kind)}, not {value!r}.")
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise ZooError(
            f"python -m zoo live needs {' and '.join(missing)}: pip install 'simulzoo[live]'."
        )
    address = Address(
        host=cfg.host,
        port=cfg.port,
        certificate=cfg.certificate,
        key=cfg.certificate_key,
        token=cfg.token,
    )
    limits: Limits = build(cfg.limits)
    from zoo.apps.live.work import serve

    serve(cfg, address, limits)
