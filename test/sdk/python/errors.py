"""Checks that refusals reach programs as the openai package's own classes."""

import os

import openai

from common import API_KEY, BASE_URL, CHAT_MODEL, GATEWAY, equal, raised, run

client = openai.OpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0)
MESSAGES = [{"role": "user", "content": "hello"}]
MISSING = "no-such-model"


def not_found():
    e = raised(openai.NotFoundError, client.chat.completions.create, model=MISSING, messages=MESSAGES)
    equal(e.code, "model_not_found", "code")


def not_found_stream():
    e = raised(openai.NotFoundError, client.responses.create, model=MISSING, input="hello", stream=True)
    equal(e.code, "model_not_found", "code")


def not_found_models():
    e = raised(openai.NotFoundError, client.models.retrieve, MISSING)
    equal(e.code, "model_not_found", "code")


def not_found_path():
    e = raised(openai.NotFoundError, client.post, "/no/such/path", body={}, cast_to=object)
    equal(e.code, "unknown_url", "code")


def bad_request():
    raised(openai.BadRequestError, client.chat.completions.create, model=CHAT_MODEL, messages=MESSAGES, max_tokens=0)


def unauthorized():
    stranger = client.with_options(api_key="cn_0000_wrong")
    e = raised(openai.AuthenticationError, stranger.chat.completions.create, model=CHAT_MODEL, messages=MESSAGES)
    equal(e.code, "invalid_api_key", "code")


# The caller has seen to it that this model has no room.
BUSY = os.environ.get("COLONNADE_BUSY_MODEL")
NEVER = {"x-colonnade-queue": "never"}


def busy():
    e = raised(
        openai.RateLimitError, client.chat.completions.create, model=BUSY, messages=MESSAGES, extra_headers=NEVER
    )
    if GATEWAY:
        equal(e.code, "out_of_capacity", "code")
        assert float(e.response.headers["retry-after"]) >= 1, "retry-after"
        assert float(e.response.headers["retry-after-ms"]) > 0, "retry-after-ms"
        equal(e.response.headers["x-colonnade-reason"], e.body["reason"], "reason")


def busy_stream():
    raised(openai.RateLimitError, client.responses.create, model=BUSY, input="hello", stream=True, extra_headers=NEVER)


def named_errors():
    e = raised(openai.NotFoundError, client.chat.completions.create, model=MISSING, messages=MESSAGES)
    assert e.request_id, "no x-request-id"
    equal(e.body["request_id"], e.request_id, "request_id")
    equal(e.body["number"], 40002, "number")


def named_answers():
    r = client.chat.completions.create(model=CHAT_MODEL, messages=MESSAGES, max_tokens=1)
    assert r._request_id, "no x-request-id"


checks = {
    "python 404 NotFoundError": not_found,
    "python 404 NotFoundError on a stream": not_found_stream,
    "python 404 NotFoundError on models": not_found_models,
    "python 404 NotFoundError on an unknown path": not_found_path,
    "python 400 BadRequestError": bad_request,
}
if os.environ.get("COLONNADE_EXPECT_401") == "1":
    checks["python 401 AuthenticationError"] = unauthorized
if BUSY:
    checks["python 429 RateLimitError"] = busy
    checks["python 429 RateLimitError on a stream"] = busy_stream
if GATEWAY:
    checks["python errors name the request"] = named_errors
    checks["python answers name the request"] = named_answers
run(checks)
