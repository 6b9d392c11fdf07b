"""What the scripts share: where the fleet is, and how a check is told."""

import functools
import json
import os
import sys
import time
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


# What follows is for the programs that are run against engines of several kinds: see README.md.

ORIGIN = BASE_URL.removesuffix("/v1")  # the base URL of clients that add /v1, or a path of another API, themselves
PROMPT = "echo: one two three four"
SAID = "one two three four"
TOOL_CALL = 'call: weather {"city":"Paris"}'  # answered by a call of the tool weather
MISSING = "no-such-model"
WRONG_KEY = "cn_0000_wrong"
NEVER = {"x-colonnade-queue": "never"}  # a request that finds no slot fails at once
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
KINDS = json.loads(os.environ.get("COLONNADE_KINDS", "{}"))


def for_kinds(path, features, model="sim", single="single"):
    """Makes the checks of a path: each feature, with an engine of each kind that has the path. A feature gets the
    names of a model with room, and of one with a single slot and a stream without end."""
    return {
        f"{path} {kind} {feature}": functools.partial(check, f"{model}-{kind}", f"{single}-{kind}")
        for kind in KINDS.get(path, [])
        for feature, check in features.items()
    }


def with_one(path, features):
    """Makes checks that do not depend on the kind of engine, with an engine of the first kind that has the path."""
    return {
        f"{path} any {feature}": functools.partial(check, f"sim-{kind}", f"single-{kind}")
        for kind in KINDS.get(path, [])[:1]
        for feature, check in features.items()
    }


def tell(what, model):
    """Tells the caller something about a model, and returns its answer."""
    print(what, model, flush=True)
    return sys.stdin.readline().strip()


def differs(path, what):
    """Says what a program that uses this client on a path must know. The caller collects it for its page."""
    print("differs", path, what, flush=True)


def left(model):
    """Returns when the caller has seen that the model's engine is idle, though its stream had no end."""
    equal(tell("left", model), "idle", "the engine, after the client has left")


# The ways in which engines cut their answers. With the last, HTTP's end is there, and only that of the stream is missing.
CUTS = ["cut_at_chunk", "cut_in_chunk", "no_done"]

ENGINE_FAILED = "the inference engine failed"  # what the gateway says of an answer that an engine has cut


def cut(model, kind, pieces, faults=CUTS, says=""):
    """Has the model's engine cut its next answers in several ways, each of which `pieces` reads. The SDK must have
    delivered the part before and raise an error of this kind that says this, and must not send the request again."""
    delivered = []

    def read():
        delivered.clear()
        delivered.extend(piece for piece in pieces() if piece)

    def check(fault):
        assert delivered, f"{fault}: nothing was delivered before the error"

    cut_whole(model, kind, read, faults, says, check)


def cut_async(model, kind, pieces, wait, says=""):
    """As cut, for pieces that come asynchronously. `wait` runs a coroutine."""

    def read():
        got, error = [], None

        async def collect():
            async for piece in pieces():
                got.append(piece)

        try:
            wait(collect())
        except Exception as e:
            error = e
        yield from got
        if error:
            raise error

    cut(model, kind, read, says=says)


def cut_whole(model, kind, send, faults=CUTS, says="", check=lambda fault: None):
    """As cut, for requests of which a program gets the whole answer or none."""
    for fault in faults:
        equal(tell("fault", f"{model} {fault}"), "set", "the engine")
        try:
            e = raised(kind, send)
        except AssertionError as e:
            raise AssertionError(f"{fault}: {e}") from e
        assert says in str(e), f"{fault}: the error says {e}"
        equal(tell("requests", model), "1", f"{fault}: requests of the answer that was cut")
        check(fault)


def eventually(check, *args):
    """Does a check until it passes, for half a minute."""
    end = time.monotonic() + 30
    while True:
        try:
            return check(*args)
        except AssertionError:
            if time.monotonic() > end:
                raise
        time.sleep(0.5)


class Attempts:
    """What a client that retries has sent and got. Its hooks are those of httpx."""

    def __init__(self, let_go):
        self.sent, self.got, self.let_go = [], [], let_go

    def request(self, _):
        self.sent.append(time.monotonic())

    def response(self, answer):
        self.got.append((time.monotonic(), answer.status_code, answer.headers.get("retry-after-ms")))
        if self.let_go:
            self.let_go()
            self.let_go = None

    def hooks(self):
        return {"request": [self.request], "response": [self.response]}


def refused_first(let_go, send):
    """Sends a request that retries, by a function that gets the hooks of an httpx client, while a model's one slot is
    held. Its first attempt is refused, which lets go; it must come back when the refusal said, and not earlier."""
    a = Attempts(let_go)
    send(a.hooks())
    assert len(a.got) > 1, "no attempt was refused"
    equal(a.got[-1][1], 200, "status of the last attempt")
    for (at, status, wait), again in zip(a.got[:-1], a.sent[1:]):
        equal(status, 429, "status of an attempt before the last")
        waited = 1000 * (again - at)
        assert waited > float(wait) - 20, f"came back after {waited} ms, though told {wait}"
