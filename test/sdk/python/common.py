"""What the scripts share: where the fleet is, and how a check is told."""

import os
import sys
import traceback


def need(name):
    value = os.environ.get(name)
    if not value:
        print(f"set {name}", file=sys.stderr)
        sys.exit(2)
    return value


BASE_URL = need("COLONNADE_BASE_URL")
API_KEY = os.environ.get("COLONNADE_API_KEY", "none")
CHAT_MODEL = os.environ.get("COLONNADE_CHAT_MODEL", "demo-chat")
EMBED_MODEL = os.environ.get("COLONNADE_EMBED_MODEL", "demo-embed")
REALTIME_MODEL = os.environ.get("COLONNADE_REALTIME_MODEL", "demo-realtime")
GATEWAY = os.environ.get("COLONNADE_GATEWAY") == "1"


def equal(got, want, what):
    assert got == want, f"{what}: got {got!r}, want {want!r}"


def raised(kind, f, *args, **kwargs):
    """Runs f and returns what it raised, which must be of this kind."""
    try:
        f(*args, **kwargs)
    except Exception as e:
        assert isinstance(e, kind), f"raised {type(e).__name__}: {e}, want {kind.__name__}"
        return e
    raise AssertionError("no error was raised")


def run(checks):
    """Does the checks one after the other and prints a line for each. Exits with 1 if one failed."""
    failed = 0
    for name, check in checks.items():
        try:
            check()
            print(f"ok {name}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED {name}: {traceback.format_exc()}", flush=True)
    if failed:
        print(f"{failed} of {len(checks)} checks failed", file=sys.stderr)
        sys.exit(1)
