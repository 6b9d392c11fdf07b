"""Checks of LangChain's packages, with engines of each kind.

    python langchains.py openai|anthropic|ollama
"""

import sys

from shared import wait  # first: it says where common is
from common import (
    API_KEY, BASE_URL, ENGINE_FAILED, MISSING, NEVER, ORIGIN, PARAMETERS, PROMPT, SAID, TOOL_CALL, WRONG_KEY, cut, cut_async, cut_whole, differs, equal,
    for_kinds, left, raised, run,
)

which = sys.argv[1] if len(sys.argv) == 2 else ""
if which == "openai":
    import openai
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings

    unauthorized, not_found, full, own = openai.AuthenticationError, openai.NotFoundError, openai.RateLimitError, openai.OpenAIError
    PATH = "/v1/chat/completions"

    def chat(model, key=API_KEY, headers=None, **more):
        return ChatOpenAI(model=model, base_url=BASE_URL, api_key=key, max_retries=0, default_headers=headers, stream_usage=True, **more)

elif which == "anthropic":
    import anthropic
    from langchain_anthropic import ChatAnthropic

    unauthorized, not_found, full, own = (
        anthropic.AuthenticationError, anthropic.NotFoundError, anthropic.RateLimitError, anthropic.AnthropicError)
    PATH = "/v1/messages"

    def chat(model, key=API_KEY, headers=None, max_tokens=64):
        return ChatAnthropic(model=model, base_url=ORIGIN, api_key=key, max_retries=0, default_headers=headers, max_tokens=max_tokens)

elif which == "ollama":
    import ollama
    from langchain_ollama import ChatOllama, OllamaEmbeddings

    unauthorized = not_found = full = own = ollama.ResponseError
    PATH = "/api/chat"

    def chat(model, key=API_KEY, headers=None, max_tokens=None, **more):
        headers = {"Authorization": f"Bearer {key}", **(headers or {})}
        return ChatOllama(model=model, base_url=ORIGIN, client_kwargs={"headers": headers}, num_predict=max_tokens, **more)

else:
    print("usage: python langchains.py openai|anthropic|ollama", file=sys.stderr)
    sys.exit(2)

WEATHER = {"type": "function", "function": {"name": "weather", "description": "…", "parameters": PARAMETERS}}


def complete(m, has_input=True):
    equal(m.text, SAID, "text")
    equal(m.usage_metadata["output_tokens"], 4, "output_tokens")
    equal(m.usage_metadata["input_tokens"] > 0, has_input, "whether there are input_tokens")


def whole(parts):
    """Returns the sum of the parts of a stream, as programs make it."""
    parts = list(parts)
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


def invoke(model, _):
    complete(chat(model).invoke(PROMPT))


def ainvoke(model, _):
    complete(wait(chat(model).ainvoke(PROMPT)))


def stream(model, _):
    # llama.cpp says them when the message begins, and the package looks at the end.
    complete(whole(chat(model).stream(PROMPT)), has_input=not (which == "anthropic" and model.endswith("llamacpp")))


def calls(m):
    equal([(c["name"], c["args"]) for c in m.tool_calls], [("weather", {"city": "Paris"})], "the calls")


def tools(model, _):
    calls(chat(model).bind_tools([WEATHER]).invoke(TOOL_CALL))


def tools_stream(model, _):
    calls(whole(chat(model).bind_tools([WEATHER]).stream(TOOL_CALL)))


def is_401(model, _):
    raised(unauthorized, chat(model, key=WRONG_KEY).invoke, PROMPT)


def is_404(*_):
    raised(not_found, chat(MISSING).invoke, PROMPT)


def hold(model):
    """Begins a stream that does not end, and returns what leaves it."""
    parts = chat(model).stream("talk")
    for part in parts:
        if part.text:
            return parts.close
    raise AssertionError("the stream ended")


def is_429(_, single):
    let_go = hold(single)
    raised(full, chat(single, headers=NEVER, max_tokens=1).invoke, PROMPT)
    let_go()


def cut_off(model, _):
    cut(model, own, lambda: (part.text for part in chat(model).stream("talk")), says=ENGINE_FAILED)


def async_cut_off(model, _):
    async def pieces():
        async for part in chat(model).astream("talk"):
            yield part.text

    cut_async(model, own, pieces, wait, ENGINE_FAILED)


def invoke_cut_off(model, _):
    """ChatOllama reads a stream for whole answers too, and must not take a part for all of it."""
    cut_whole(model, own, lambda: chat(model).invoke("talk"), says=ENGINE_FAILED)
    cut_whole(model, own, lambda: wait(chat(model).ainvoke("talk")), says=ENGINE_FAILED)


def not_allowed(model, _):
    """Ollama would load the model again for this option, and keep it for as long as this field says."""
    for field, more in {"options": {"num_ctx": 4096}, "keep_alive": {"keep_alive": "1h"}}.items():
        e = raised(own, chat(model, **more).invoke, PROMPT)
        equal(e.status_code, 400, "status_code")
        assert f'the field "{field}"' in e.error and "allow_fields" in e.error, f"the error says {e.error}"


def allowed(model, _):
    complete(chat(model, num_ctx=4096).invoke(PROMPT))


def left_early(_, single):
    hold(single)()
    left(single)


def embeddings(model, _):
    if which == "openai":
        e = OpenAIEmbeddings(model=model, base_url=BASE_URL, api_key=API_KEY, max_retries=0, check_embedding_ctx_length=False)
    else:
        e = OllamaEmbeddings(model=model, base_url=ORIGIN, client_kwargs={"headers": {"Authorization": f"Bearer {API_KEY}"}})
    vectors = e.embed_documents(["one", "two"])
    equal(len(vectors), 2, "vectors")
    assert len(vectors[0]) > 1, "the vector is empty"


if which == "ollama":
    differs(PATH, "`num_ctx` and other options for which Ollama loads the model again, and `keep_alive`, get a 400 that names the field "
            "(`ResponseError`), unless the model's document has `options` or `keep_alive` under `allow_fields`; the package sends neither unless told to")
if which == "anthropic":
    differs(PATH, "streams of `llamacpp` have no `input_tokens`: the engine says them when the message begins, and the package looks at its end")
if which == "openai":
    differs("/v1/embeddings", "embeddings need `check_embedding_ctx_length=False`: else the package sends tokens of OpenAI's vocabulary in place of the text")

run({
    **for_kinds(PATH, {
        "invoke": invoke, "ainvoke": ainvoke, "stream": stream, "tools": tools, "tools, stream": tools_stream,
        f"401 {unauthorized.__name__}": is_401, f"404 {not_found.__name__}": is_404, f"429 {full.__name__}": is_429,
        "stream that is cut": cut_off, "stream left early": left_early,
    }),
    **({
        "openai": for_kinds("/v1/embeddings", {"embed_documents": embeddings}, "embed"),
        "ollama": {
            **for_kinds(PATH, {
                "astream that is cut": async_cut_off, "invoke and ainvoke that are cut": invoke_cut_off,
                "400 ResponseError for num_ctx and keep_alive": not_allowed,
            }),
            **for_kinds(PATH, {"num_ctx with allow_fields": allowed}, "loading"),
            **for_kinds("/api/embed", {"embed_documents": embeddings}, "embed"),
        },
    }.get(which, {})),
})
