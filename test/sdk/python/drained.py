"""A realtime session while the fleet ends: prints "ready" once it runs, and waits for its end."""

from openai import OpenAI
from websockets.exceptions import ConnectionClosed

from common import API_KEY, BASE_URL, REALTIME_MODEL, equal, raised, run


def drained():
    client = OpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0)
    with client.realtime.connect(model=REALTIME_MODEL) as c:
        equal(c.recv().type, "session.created", "the first event")
        print("ready", flush=True)
        e = raised(ConnectionClosed, c.recv)
        equal(e.rcvd.code, 1001, "close code")
        assert e.rcvd.reason.endswith(("is ending", "is shutting down")), e.rcvd.reason


run({"python session drained": drained})
