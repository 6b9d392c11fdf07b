"""Checks of LlamaIndex's packages, with engines of each kind.

    python llamaindex.py openai|ollama
"""

import functools
import gc
import sys

from shared import wait  # first: it says where common is
from common import (
    API_KEY, BASE_URL, CUTS, ENGINE_FAILED, MISSING, NEVER, ORIGIN, PROMPT, SAID, TOOL_CALL, WRONG_KEY, cut, cut_async, cut_whole, differs, equal,
    for_kinds, left, raised, run,
)
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool

which = sys.argv[1] if len(sys.argv) == 2 else ""
if which == "openai":
    import openai
    from llama_index.embeddings.openai import OpenAIEmbedding
    from llama_index.llms.openai_like import OpenAILike

    unauthorized, not_found, full, own = openai.AuthenticationError, openai.NotFoundError, openai.RateLimitError, openai.OpenAIError
    PATH = "/v1/chat/completions"

    def llm(model, key=API_KEY, headers=None, max_tokens=64):
        return OpenAILike(
            model=model, api_base=BASE_URL, api_key=key, max_retries=0, default_headers=headers, max_tokens=max_tokens,
            is_chat_model=True, is_function_calling_model=True)

elif which == "ollama":
    import ollama
    from llama_index.llms.ollama import Ollama

    unauthorized = not_found = full = own = ollama.ResponseError
    PATH = "/api/chat"

    def llm(model, key=API_KEY, headers=None, max_tokens=64):
        headers = {"Authorization": f"Bearer {key}", **(headers or {})}
        return Ollama(model=model, base_url=ORIGIN, headers=headers, context_window=4096, additional_kwargs={"num_predict": max_tokens})

else:
    print("usage: python llamaindex.py openai|ollama", file=sys.stderr)
    sys.exit(2)


def ask(text):
    return [ChatMessage(role="user", content=text)]


def weather(city: str) -> str:
    """Tells the weather."""
    return city


def chat(model, _):
    equal(llm(model).chat(ask(PROMPT)).message.content, SAID, "content")


def achat(model, _):
    equal(wait(llm(model).achat(ask(PROMPT))).message.content, SAID, "content")


def complete(model, _):
    equal(llm(model).complete(PROMPT).text, SAID, "text")


def stream(model, _):
    parts = list(llm(model).stream_chat(ask(PROMPT)))
    equal("".join(p.delta or "" for p in parts), SAID, "text")


def tools(model, _):
    m = llm(model)
    r = m.chat_with_tools([FunctionTool.from_defaults(weather)], user_msg=TOOL_CALL)
    equal([(c.tool_name, c.tool_kwargs) for c in m.get_tool_calls_from_response(r)], [("weather", {"city": "Paris"})], "the calls")


def is_401(model, _):
    raised(unauthorized, llm(model, key=WRONG_KEY).chat, ask(PROMPT))


def is_404(*_):
    raised(not_found, llm(MISSING).chat, ask(PROMPT))


def hold(model):
    """Begins a stream that does not end, and returns what leaves it."""
    parts = llm(model).stream_chat(ask("talk"))
    for part in parts:
        if part.delta:
            return functools.partial(leave, parts)
    raise AssertionError("the stream ended")


def leave(parts):
    """Leaves a stream. That of OpenAILike keeps its connection until Python has collected it."""
    parts.close()
    gc.collect()


def is_429(_, single):
    let_go = hold(single)
    raised(full, llm(single, headers=NEVER, max_tokens=1).chat, ask(PROMPT))
    let_go()
    left(single)


def cut_off(model, _):
    cut(model, own, lambda: (part.delta for part in llm(model).stream_chat(ask("talk"))), says=ENGINE_FAILED)


def completion_cut_off(model, _):
    cut(model, own, lambda: (part.delta for part in llm(model).stream_complete("talk")), says=ENGINE_FAILED)


def async_cut_off(model, _):
    async def pieces():
        async for part in await llm(model).astream_chat(ask("talk")):
            yield part.delta

    cut_async(model, own, pieces, wait, ENGINE_FAILED)


def chat_cut_off(model, _):
    cut_whole(model, own, lambda: llm(model).chat(ask("talk")), CUTS[:2], ENGINE_FAILED)


def not_allowed(model, _):
    """Ollama would load the model again for num_ctx."""
    for send in [llm(model).chat, lambda messages: list(llm(model).stream_chat(messages))]:
        e = raised(own, send, ask(PROMPT))
        equal(e.status_code, 400, "status_code")
        assert 'the field "options"' in e.error and "allow_fields" in e.error, f"the error says {e.error}"


def left_early(_, single):
    hold(single)()
    left(single)


def embeddings(model, _):
    e = OpenAIEmbedding(model_name=model, api_base=BASE_URL, api_key=API_KEY, max_retries=0)
    vectors = e.get_text_embedding_batch(["one", "two"])
    equal(len(vectors), 2, "vectors")
    assert len(vectors[0]) > 1, "the vector is empty"


if which == "ollama":
    differs(PATH, "the package always sends `num_ctx`, for which Ollama may load the model again: without `allow_fields: [options]` in the model's document, "
            "each request gets a 400 that names the field (`ResponseError`). All checks but that one have it")

if which == "openai":
    differs(PATH, "a stream that a program leaves keeps its slot until Python has collected it: `gc.collect()`, or close the client")

model, single = ("loading", "loading-single") if which == "ollama" else ("sim", "single")
run({
    **for_kinds(PATH, {
        "chat": chat, "achat": achat, "complete": complete, "stream_chat": stream, "tools": tools,
        f"401 {unauthorized.__name__}": is_401, f"404 {not_found.__name__}": is_404, f"429 {full.__name__}": is_429,
        "stream that is cut": cut_off, "stream left early": left_early,
    }, model, single),
    **({
        "openai": for_kinds("/v1/embeddings", {"get_text_embedding_batch": embeddings}, "embed"),
        "ollama": {
            **for_kinds(PATH, {
                "stream_complete that is cut": completion_cut_off, "astream_chat that is cut": async_cut_off, "chat that is cut": chat_cut_off,
            }, model),
            **for_kinds(PATH, {"400 ResponseError without allow_fields": not_allowed}),
        },
    }[which]),
})
