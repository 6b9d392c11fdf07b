"""Checks that the openai package reads streams with queue events as any others.

COLONNADE_QUEUED_MODEL names a model whose engine takes one request at a time, so that of several at once most wait.
COLONNADE_BUSY_MODEL names one that has no room.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import openai

from common import API_KEY, BASE_URL, equal, need, raised, run

EVENTS = {"x-colonnade-queue-events": "1"}
client = openai.OpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0, default_headers=EVENTS)
QUEUED, BUSY = need("COLONNADE_QUEUED_MODEL"), need("COLONNADE_BUSY_MODEL")
SAID, HEARD = "echo: one two three", "one two three"
MESSAGES = [{"role": "user", "content": SAID}]


def together(ask):
    with ThreadPoolExecutor(4) as pool:
        for heard in pool.map(lambda _: ask(), range(4)):
            equal(heard.strip(), HEARD, "text")


def chat():
    stream = client.chat.completions.create(model=QUEUED, messages=MESSAGES, stream=True)
    return "".join(c.choices[0].delta.content or "" for c in stream if c.choices)


def responses():
    with client.responses.stream(model=QUEUED, input=SAID) as stream:
        return stream.get_final_response().output_text


def asynchronous():
    aclient = openai.AsyncOpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0, default_headers=EVENTS)

    async def ask():
        stream = await aclient.chat.completions.create(model=QUEUED, messages=MESSAGES, stream=True)
        return "".join([c.choices[0].delta.content or "" async for c in stream if c.choices])

    async def all_of_them():
        return await asyncio.gather(*(ask() for _ in range(4)))

    for heard in asyncio.run(all_of_them()):
        equal(heard.strip(), HEARD, "text")


NEVER = {"x-colonnade-queue": "never"}


def refused(f, **kwargs):
    e = raised(openai.APIError, lambda: list(f(model=BUSY, stream=True, extra_headers=NEVER, **kwargs)))
    equal(e.code, "out_of_capacity", "code")
    equal(e.body["reason"], "busy", "reason")
    assert e.body["retry_after_ms"] >= 1000, "retry_after_ms"


def not_a_stream():
    e = raised(openai.BadRequestError, client.chat.completions.create, model=QUEUED, messages=MESSAGES)
    assert "leave the header out" in e.message, e.message


run({
    "python chat waits": lambda: together(chat),
    "python responses wait": lambda: together(responses),
    "python asynchronous chat waits": asynchronous,
    "python chat is refused": lambda: refused(client.chat.completions.create, messages=MESSAGES),
    "python responses are refused": lambda: refused(client.responses.create, input=SAID),
    "python 400 without a stream": not_a_stream,
})
