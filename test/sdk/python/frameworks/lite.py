"""Checks of LiteLLM as a client, with engines of each kind: its providers openai, anthropic and ollama_chat."""

import functools

import shared  # noqa: F401, first: it says where common is
import litellm
from common import (
    API_KEY, BASE_URL, MISSING, ORIGIN, PROMPT, SAID, WRONG_KEY, cut, differs, equal, for_kinds, raised, run,
)

litellm.suppress_debug_info = True
BASES = {"openai": BASE_URL, "anthropic": ORIGIN, "ollama_chat": ORIGIN}


def request(provider, model, text, key=API_KEY, **more):
    return {"model": f"{provider}/{model}", "api_base": BASES[provider], "api_key": key, "max_tokens": 64, "num_retries": 0, "max_retries": 0,
            "messages": [{"role": "user", "content": text}], **more}


def ask(*args, **more):
    return litellm.completion(**request(*args, **more))


def complete(r):
    equal((r.choices[0].message.content, r.choices[0].finish_reason), (SAID, "stop"), "the answer")
    equal(r.usage.completion_tokens, 4, "completion_tokens")


def completion(provider, model, _):
    complete(ask(provider, model, PROMPT))


def stream(provider, model, _):
    parts = list(ask(provider, model, PROMPT, stream=True))
    equal("".join(p.choices[0].delta.content or "" for p in parts), SAID, "text")


def is_401(provider, model, _):
    raised(litellm.AuthenticationError, ask, provider, model, PROMPT, key=WRONG_KEY)


def is_404(provider, *_):
    raised(litellm.NotFoundError, ask, provider, MISSING, PROMPT)


def cut_off(provider, model, _):
    cut(model, Exception, lambda: (part.choices[0].delta.content for part in ask(provider, model, "talk", stream=True)))


def embedding(model, _):
    r = litellm.embedding(model=f"openai/{model}", api_base=BASE_URL, api_key=API_KEY, input=["one", "two"])
    equal(len(r.data), 2, "vectors")


def checks(path, provider):
    features = {
        "completion": completion, "stream": stream, "401 AuthenticationError": is_401,
        "404 NotFoundError": is_404, "stream that is cut": cut_off,
    }
    return for_kinds(path, {f"{provider}/ {name}": functools.partial(check, provider) for name, check in features.items()})


differs("/v1/chat/completions", "tools need the package `mcp` beside it, which is not tested")

run({
    **checks("/v1/chat/completions", "openai"),
    **checks("/v1/messages", "anthropic"),
    **checks("/api/chat", "ollama_chat"),
    **for_kinds("/v1/embeddings", {"embedding": embedding}, "embed"),
})
