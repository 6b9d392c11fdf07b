"""Checks of the realtime API through the openai package's own connection classes."""

import asyncio
import json
import os

from openai import AsyncOpenAI, OpenAI
from websockets.exceptions import InvalidStatus

from common import API_KEY, BASE_URL, REALTIME_MODEL, equal, raised, run

client = OpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0)
BUSY_MODEL = os.environ.get("COLONNADE_BUSY_REALTIME_MODEL")
QUESTION = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "echo: one two three four"}]}


def said(done, pieces):
    equal(done.response.status, "completed", "status")
    equal("".join(pieces), "one two three four", "text")
    equal(done.response.usage.output_tokens, len(pieces), "output_tokens")
    equal(done.response.usage.total_tokens, done.response.usage.input_tokens + len(pieces), "total_tokens")


def response():
    with client.realtime.connect(model=REALTIME_MODEL) as c:
        equal(c.recv().type, "session.created", "the first event")
        c.conversation.item.create(item=QUESTION)
        c.response.create()
        pieces = []
        for event in c:
            if event.type == "response.output_text.delta":
                pieces.append(event.delta)
            if event.type == "response.done":
                said(event, pieces)
                break


def asynchronous():
    async def talk():
        async with AsyncOpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0).realtime.connect(model=REALTIME_MODEL) as c:
            await c.conversation.item.create(item=QUESTION)
            await c.response.create()
            pieces = []
            async for event in c:
                if event.type == "response.output_text.delta":
                    pieces.append(event.delta)
                if event.type == "response.done":
                    return said(event, pieces)

    asyncio.run(talk())


def refused(status, code, model=REALTIME_MODEL, key=API_KEY, **headers):
    c = OpenAI(base_url=BASE_URL, api_key=key, max_retries=0)
    e = raised(InvalidStatus, c.realtime.connect(model=model, extra_headers=headers).enter)
    equal(e.response.status_code, status, "status")
    error = json.loads(e.response.body)["error"]
    equal(error["code"], code, "code")
    return e.response, error


def unknown_model():
    _, error = refused(404, "model_not_found", model="no-such-model")
    assert "no-such-model" in error["message"], error


def wrong_key():
    refused(401, "invalid_api_key", key="cn_wrong_0123456789abcdefghij")


def busy():
    answer, error = refused(429, "out_of_capacity", model=BUSY_MODEL, **{"x-colonnade-queue": "never"})
    equal(error["reason"], "busy", "reason")
    assert int(answer.headers["retry-after"]) > 0, answer.headers


checks = {"realtime response": response, "realtime asynchronous": asynchronous, "realtime unknown model": unknown_model}
if os.environ.get("COLONNADE_EXPECT_401"):
    checks["realtime wrong key"] = wrong_key
if BUSY_MODEL:
    checks["realtime out of capacity"] = busy
run({"python " + name: check for name, check in checks.items()})
