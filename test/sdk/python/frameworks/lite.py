"""Checks of LiteLLM as a client, with engines of each kind: its providers openai, anthropic and ollama_chat."""

import contextlib
import functools
import json

from shared import wait  # first: it says where common is
import litellm
import openai
from common import (
    API_KEY, BASE_URL, MISSING, NEVER, ORIGIN, PARAMETERS, PROMPT, SAID, TOOL_CALL, WRONG_KEY, cut, differs, equal, for_kinds, left, raised, run,
)
from litellm.llms.custom_httpx.http_handler import HTTPHandler

litellm.suppress_debug_info = True
BASES = {"openai": BASE_URL, "anthropic": ORIGIN, "ollama_chat": ORIGIN}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "…", "parameters": PARAMETERS}}]


def request(provider, model, text, key=API_KEY, **more):
    return {"model": f"{provider}/{model}", "api_base": BASES[provider], "api_key": key, "max_tokens": 64, "num_retries": 0, "max_retries": 0,
            "messages": [{"role": "user", "content": text}], **more}


def ask(*args, **more):
    return litellm.completion(**request(*args, **more))


@contextlib.contextmanager
def streamed(provider, *args, **more):
    """Gives a stream with a client of its own, which is closed with it. LiteLLM leaves the connection of a stream that
    fails, or that a program leaves, to the garbage collector. On the client that all streams of a provider share, the
    collector may then find httpcore's pool locked by the very thread that it runs in, and the process hangs for ever:
    https://github.com/encode/httpcore/issues/990."""
    client = openai.OpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0) if provider == "openai" else HTTPHandler()
    with contextlib.closing(client):
        yield ask(provider, *args, stream=True, client=client, **more)


def texts(stream):
    return (part.choices[0].delta.content for part in stream if part.choices)


def complete(r):
    equal((r.choices[0].message.content, r.choices[0].finish_reason), (SAID, "stop"), "the answer")
    equal(r.usage.completion_tokens, 4, "completion_tokens")


def completion(provider, model, _):
    complete(ask(provider, model, PROMPT))


def acompletion(provider, model, _):
    complete(wait(litellm.acompletion(**request(provider, model, PROMPT))))


def stream(provider, model, _):
    with streamed(provider, model, PROMPT) as parts:
        equal("".join(text or "" for text in texts(parts)), SAID, "text")


def calls(r):
    equal(r.choices[0].finish_reason, "tool_calls", "finish_reason")
    equal([(c.function.name, json.loads(c.function.arguments)) for c in r.choices[0].message.tool_calls], [("weather", {"city": "Paris"})], "the calls")


def tools(provider, model, _):
    calls(ask(provider, model, TOOL_CALL, tools=TOOLS))


def tools_stream(provider, model, _):
    with streamed(provider, model, TOOL_CALL, tools=TOOLS) as parts:
        calls(litellm.stream_chunk_builder(list(parts)))


def is_401(provider, model, _):
    raised(litellm.AuthenticationError, ask, provider, model, PROMPT, key=WRONG_KEY)


def is_404(provider, *_):
    raised(litellm.NotFoundError, ask, provider, MISSING, PROMPT)


@contextlib.contextmanager
def held(provider, model):
    """Begins a stream that does not end, and leaves it."""
    with streamed(provider, model, "talk") as parts:
        next(text for text in texts(parts) if text)
        yield


def is_429(provider, _, single):
    with held(provider, single):
        raised(litellm.RateLimitError, ask, provider, single, PROMPT, extra_headers=NEVER)
    left(single)


def not_allowed(provider, model, _):
    """Ollama would load the model again for this option, and keep it for as long as this field says."""
    for field, more in {"options": {"num_ctx": 4096}, "keep_alive": {"keep_alive": "1h"}}.items():
        e = raised(litellm.BadRequestError, ask, provider, model, PROMPT, **more)
        assert f'the field \\"{field}\\"' in str(e) and "allow_fields" in str(e), f"the error says {e}"


def allowed(provider, model, _):
    complete(ask(provider, model, PROMPT, num_ctx=4096))


def left_early(provider, _, single):
    with held(provider, single):
        pass
    left(single)


def cut_off(provider, model, _):
    def read():
        with streamed(provider, model, "talk") as parts:
            yield from texts(parts)

    cut(model, openai.APIError, read)  # what LiteLLM's own errors are, all of them


def embedding(model, _):
    r = litellm.embedding(model=f"openai/{model}", api_base=BASE_URL, api_key=API_KEY, input=["one", "two"])
    equal(len(r.data), 2, "vectors")


def checks(path, provider):
    features = {
        "completion": completion, "acompletion": acompletion, "stream": stream, "tools": tools, "tools, stream": tools_stream,
        "401 AuthenticationError": is_401, "404 NotFoundError": is_404, "429 RateLimitError": is_429,
        "stream that is cut": cut_off, "stream left early": left_early,
    }
    return for_kinds(path, {f"{provider}/ {name}": functools.partial(check, provider) for name, check in features.items()})


LOCKS = ("a stream that fails, or that a program leaves, keeps its connection until Python has collected it, which may hang the process: "
         "give streams a client of their own, `client=HTTPHandler()`, and close it")
differs("/v1/chat/completions", "tools need the package `mcp` beside it: install `litellm[mcp]`")
differs("/v1/chat/completions", LOCKS.replace("HTTPHandler()", "openai.OpenAI(…)"))
differs("/v1/messages", LOCKS)
differs("/api/chat", LOCKS)
differs("/api/chat", "`num_ctx` and other options for which Ollama loads the model again, and `keep_alive`, get a 400 that names the field "
        "(`BadRequestError`), unless the model's document has `options` or `keep_alive` under `allow_fields`; the package sends neither unless told to")

run({
    **checks("/v1/chat/completions", "openai"),
    **checks("/v1/messages", "anthropic"),
    **checks("/api/chat", "ollama_chat"),
    **for_kinds("/api/chat", {"ollama_chat/ 400 BadRequestError for num_ctx and keep_alive": functools.partial(not_allowed, "ollama_chat")}),
    **for_kinds("/api/chat", {"ollama_chat/ num_ctx with allow_fields": functools.partial(allowed, "ollama_chat")}, "loading"),
    **for_kinds("/v1/embeddings", {"embedding": embedding}, "embed"),
})
