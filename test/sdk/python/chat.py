"""Checks of the openai package, with engines of each kind."""

import media
import openai
from common import (
    API_KEY, BASE_URL, MISSING, NEVER, PARAMETERS, PROMPT, SAID, TOOL_CALL, WRONG_KEY, cut, equal, for_kinds, left, raised, refused_first, run, with_one,
)

client = openai.OpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0)
retrying = openai.OpenAI(base_url=BASE_URL, api_key=API_KEY)  # as the SDK does it by default
MESSAGES = [{"role": "user", "content": PROMPT}]
TALK = [{"role": "user", "content": "talk"}]
CALL = [{"role": "user", "content": TOOL_CALL}]
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}]


def complete(choice):
    equal((choice.message.content, choice.finish_reason), (SAID, "stop"), "the answer")


def calls(choice):
    call = choice.message.tool_calls[0]
    equal((choice.finish_reason, call.function.name, call.function.arguments), ("tool_calls", "weather", '{"city":"Paris"}'), "the call")


def plain(model, _):
    r = client.chat.completions.create(model=model, messages=MESSAGES)
    complete(r.choices[0])
    equal(r.usage.completion_tokens, 4, "completion_tokens")


def stream(model, _):
    text = ""
    for chunk in client.chat.completions.create(model=model, messages=MESSAGES, stream=True, stream_options={"include_usage": True}):
        text += chunk.choices[0].delta.content or "" if chunk.choices else ""
    equal(text, SAID, "text")
    equal(chunk.usage.completion_tokens, 4, "completion_tokens")


def stream_helper(model, _):
    with client.chat.completions.stream(model=model, messages=MESSAGES) as s:
        complete(s.get_final_completion().choices[0])


def tools(model, _):
    calls(client.chat.completions.create(model=model, messages=CALL, tools=TOOLS).choices[0])


def tools_stream(model, _):
    with client.chat.completions.stream(model=model, messages=CALL, tools=TOOLS) as s:
        calls(s.get_final_completion().choices[0])


def unauthorized(model, _):
    raised(openai.AuthenticationError, client.with_options(api_key=WRONG_KEY).chat.completions.create, model=model, messages=MESSAGES)


def not_found(*_):
    raised(openai.NotFoundError, client.chat.completions.create, model=MISSING, messages=MESSAGES)


def hold(model):
    """Begins a stream that does not end, and returns what leaves it."""
    s = client.chat.completions.create(model=model, messages=TALK, stream=True)
    for chunk in s:
        if chunk.choices[0].delta.content:
            return s.close
    raise AssertionError("the stream ended")


def full(_, single):
    let_go = hold(single)
    raised(openai.RateLimitError, client.chat.completions.create, model=single, max_tokens=1, messages=MESSAGES, extra_headers=NEVER)
    let_go()


def retries(_, single):
    def send(hooks):
        http = openai.DefaultHttpxClient(event_hooks=hooks)
        with openai.OpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=5, default_headers=NEVER, http_client=http) as c:
            r = c.chat.completions.create(model=single, max_tokens=1, messages=MESSAGES)
            equal(r.choices[0].message.content, "one", "content")

    refused_first(hold(single), send)


def cut_off(model, _):
    def pieces():
        for chunk in retrying.chat.completions.create(model=model, messages=TALK, stream=True):
            yield chunk.choices[0].delta.content if chunk.choices else None

    cut(model, openai.OpenAIError, pieces)


def left_early(_, single):
    hold(single)()
    left(single)


def completions(model, _):
    equal(client.completions.create(model=model, prompt=PROMPT).choices[0].text, SAID, "text")


def completions_stream(model, _):
    equal("".join(c.choices[0].text for c in client.completions.create(model=model, prompt=PROMPT, stream=True)), SAID, "text")


def responses(model, _):
    equal(client.responses.create(model=model, input=PROMPT).output_text, SAID, "output_text")


def responses_stream(model, _):
    with client.responses.stream(model=model, input=PROMPT) as s:
        equal(s.get_final_response().output_text, SAID, "output_text")


def embeddings(model, _):
    r = client.embeddings.create(model=model, input=["one", "two"])
    equal(len(r.data), 2, "vectors")
    assert r.usage.prompt_tokens > 0, "no prompt_tokens"


def models(model, _):
    own = [m for m in client.models.list() if m.id == model]
    assert own and own[0].created > 0 and own[0].owned_by, f"{model} is not listed as it should: {own}"
    equal(client.models.retrieve(model).id, model, "id")


run({
    **for_kinds("/v1/chat/completions", {
        "plain": plain, "stream": stream, "stream helper": stream_helper, "tools": tools, "tools, stream helper": tools_stream,
        "401 AuthenticationError": unauthorized, "404 NotFoundError": not_found, "429 RateLimitError": full,
        "stream that is cut": cut_off, "stream left early": left_early,
    }),
    **with_one("/v1/chat/completions", {"retries obey Retry-After": retries}),
    **for_kinds("/v1/completions", {"plain": completions, "stream": completions_stream}),
    **for_kinds("/v1/responses", {"plain": responses, "stream helper": responses_stream}),
    **for_kinds("/v1/embeddings", {"embeddings": embeddings}, "embed"),
    **for_kinds("/v1/models", {"list and retrieve": models}),
    **media.CHECKS,
})
