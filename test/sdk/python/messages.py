"""Checks of the anthropic package, with engines of each kind that has Anthropic's paths or has them translated."""

import asyncio

import anthropic
from common import (
    API_KEY, MISSING, NEVER, ORIGIN, PARAMETERS, PROMPT, SAID, TOOL_CALL, WRONG_KEY, cut, equal, for_kinds, left, raised, refused_first, run, with_one,
)

client = anthropic.Anthropic(base_url=ORIGIN, api_key=API_KEY, max_retries=0)
retrying = anthropic.Anthropic(base_url=ORIGIN, api_key=API_KEY)  # as the SDK does it by default
MESSAGES = [{"role": "user", "content": PROMPT}]
TALK = [{"role": "user", "content": "talk"}]
TOOLS = [{"name": "weather", "description": "…", "input_schema": PARAMETERS}]
CALL = [{"role": "user", "content": TOOL_CALL}]


def complete(m):
    equal(m.content[0].text, SAID, "text")
    equal(m.stop_reason, "end_turn", "stop_reason")
    equal(m.usage.output_tokens, 4, "output_tokens")
    assert m.usage.input_tokens > 0, "no input_tokens"


def calls(m):
    equal(m.stop_reason, "tool_use", "stop_reason")
    use = next(b for b in m.content if b.type == "tool_use")
    equal((use.name, use.input), ("weather", {"city": "Paris"}), "the call")


def plain(model, _):
    complete(client.messages.create(model=model, max_tokens=64, messages=MESSAGES, system="Be brief."))


def shortened(model, _):
    m = client.messages.create(model=model, max_tokens=2, messages=MESSAGES)
    equal((m.content[0].text, m.stop_reason), ("one two", "max_tokens"), "the answer")


def stream(model, _):
    types, text = [], ""
    for event in client.messages.create(model=model, max_tokens=64, messages=MESSAGES, stream=True):
        types.append(event.type)
        if event.type == "content_block_delta":
            text += event.delta.text
    equal(text, SAID, "text")
    equal((types[0], types[-1]), ("message_start", "message_stop"), "events")


def stream_helper(model, _):
    with client.messages.stream(model=model, max_tokens=64, messages=MESSAGES) as s:
        equal("".join(s.text_stream), SAID, "text")
        complete(s.get_final_message())


def asynchronous(model, _):
    async def helper():
        async with anthropic.AsyncAnthropic(base_url=ORIGIN, api_key=API_KEY, max_retries=0) as c:
            complete(await c.messages.create(model=model, max_tokens=64, messages=MESSAGES))
            async with c.messages.stream(model=model, max_tokens=64, messages=MESSAGES) as s:
                complete(await s.get_final_message())

    asyncio.run(helper())


def tools(model, _):
    calls(client.messages.create(model=model, max_tokens=64, messages=CALL, tools=TOOLS))


def tools_stream(model, _):
    with client.messages.stream(model=model, max_tokens=64, messages=CALL, tools=TOOLS) as s:
        calls(s.get_final_message())


def refused(e, kind):
    equal(e.body["error"]["type"], kind, "type")
    assert e.request_id, "the error does not name the request"
    equal(e.body["request_id"], e.request_id, "request_id")


def unauthorized(model, _):
    stranger = client.with_options(api_key=WRONG_KEY)
    refused(raised(anthropic.AuthenticationError, stranger.messages.create, model=model, max_tokens=1, messages=MESSAGES), "authentication_error")


def not_found(*_):
    refused(raised(anthropic.NotFoundError, client.messages.create, model=MISSING, max_tokens=1, messages=MESSAGES), "not_found_error")


def bad_request(model, _):
    raised(anthropic.BadRequestError, client.messages.create, model=model, max_tokens=0, messages=MESSAGES)


def hold(model):
    """Begins a stream that does not end, and returns what leaves it."""
    s = client.messages.create(model=model, max_tokens=64, messages=TALK, stream=True)
    for event in s:
        if event.type == "content_block_delta":
            return s.close
    raise AssertionError("the stream ended")


def full(_, single):
    let_go = hold(single)
    e = raised(anthropic.RateLimitError, client.messages.create, model=single, max_tokens=1, messages=MESSAGES, extra_headers=NEVER)
    let_go()
    refused(e, "rate_limit_error")


def retries(_, single):
    def send(hooks):
        http = anthropic.DefaultHttpxClient(event_hooks=hooks)
        with anthropic.Anthropic(base_url=ORIGIN, api_key=API_KEY, max_retries=5, default_headers=NEVER, http_client=http) as c:
            equal(c.messages.create(model=single, max_tokens=1, messages=MESSAGES).content[0].text, "one", "text")

    refused_first(hold(single), send)


def cut_off(model, _):
    def pieces():
        for event in retrying.messages.create(model=model, max_tokens=64, messages=TALK, stream=True):
            yield event.delta.text if event.type == "content_block_delta" else None

    cut(model, anthropic.AnthropicError, pieces)


def left_early(_, single):
    hold(single)()
    left(single)


def count(model, _):
    assert client.messages.count_tokens(model=model, messages=MESSAGES).input_tokens >= 4, "too few tokens"


def models(model, _):
    own = [m for m in client.models.list() if m.id == model]
    assert own and own[0].display_name and own[0].created_at, f"{model} is not listed as it should: {own}"
    equal(client.models.retrieve(model).id, model, "id")


run({
    **for_kinds("/v1/messages", {
        "plain": plain, "plain, cut by max_tokens": shortened, "stream": stream, "stream helper": stream_helper,
        "asynchronous client": asynchronous, "tools": tools, "tools, stream helper": tools_stream,
        "401 AuthenticationError": unauthorized, "404 NotFoundError": not_found, "400 BadRequestError": bad_request,
        "429 RateLimitError": full, "stream that is cut": cut_off, "stream left early": left_early,
    }),
    **with_one("/v1/messages", {"retries obey Retry-After": retries}),
    **for_kinds("/v1/messages/count_tokens", {"count": count}),
    **for_kinds("/v1/models", {"list and retrieve": models}),
})
