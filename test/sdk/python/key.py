"""A key that works and is revoked: what does the openai package make of it, with its default retries?

Prints "ready" after the key has worked, waits for a line on standard input, which says that COLONNADE_API_KEY was revoked, and goes on
until the refusal.
"""

import sys
import time

import openai

from common import API_KEY, BASE_URL, CHAT_MODEL, equal, raised, run

PATIENCE = 30  # seconds
MESSAGES = [{"role": "user", "content": "echo: hello"}]

sent = []
client = openai.OpenAI(
    base_url=BASE_URL, api_key=API_KEY, http_client=openai.DefaultHttpxClient(event_hooks={"request": [lambda r: sent.append(r.url)]})
)


def used():
    r = client.chat.completions.create(model=CHAT_MODEL, messages=MESSAGES)
    equal(r.choices[0].message.content, "hello", "content")


def revoked():
    end = time.monotonic() + PATIENCE
    while True:
        assert time.monotonic() < end, "the revoked key still works"
        sent.clear()
        try:
            used()
        except openai.AuthenticationError as e:
            equal(e.status_code, 401, "status_code")
            equal(e.code, "invalid_api_key", "code")
            assert API_KEY[-10:] not in f"{e} {e.body}", "the error repeats the key"
            break
        time.sleep(0.02)
    equal(len(sent), 1, "requests of the call that was refused")


def revoked_stream():
    raised(openai.AuthenticationError, client.responses.create, model=CHAT_MODEL, input="hello", stream=True)


def revoked_models():
    raised(openai.AuthenticationError, client.models.list)


run({"python key used": used})
print("ready", flush=True)
sys.stdin.readline()
run({
    "python key revoked": revoked,
    "python key revoked, on a stream": revoked_stream,
    "python key revoked, models": revoked_models,
})
