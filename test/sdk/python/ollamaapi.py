"""Checks of the ollama package, with engines of each kind that has Ollama's paths."""

import asyncio
import functools

import ollama
from common import (
    API_KEY, CUTS, ENGINE_FAILED, MISSING, NEVER, ORIGIN, PARAMETERS, PROMPT, SAID, TOOL_CALL, WRONG_KEY, cut, cut_async, cut_whole, differs,
    equal, eventually, for_kinds, left, raised, run,
)

KEY = {"Authorization": f"Bearer {API_KEY}"}
client = ollama.Client(host=ORIGIN, headers=KEY)
MESSAGES = [{"role": "user", "content": PROMPT}]
TALK = [{"role": "user", "content": "talk"}]
CALL = [{"role": "user", "content": TOOL_CALL}]
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "…", "parameters": PARAMETERS}}]


def done(r):
    equal((r.done, r.done_reason, r.eval_count), (True, "stop", 4), "the end")
    assert r.prompt_eval_count > 0, "no prompt_eval_count"


def plain(model, _):
    r = client.chat(model=model, messages=MESSAGES)
    equal(r.message.content, SAID, "content")
    done(r)


def stream(model, _):
    parts = list(client.chat(model=model, messages=MESSAGES, stream=True))
    equal("".join(p.message.content or "" for p in parts), SAID, "text")
    done(parts[-1])


def asynchronous(model, _):
    async def both():
        c = ollama.AsyncClient(host=ORIGIN, headers=KEY)
        equal((await c.chat(model=model, messages=MESSAGES)).message.content, SAID, "content")
        parts = [p async for p in await c.chat(model=model, messages=MESSAGES, stream=True)]
        done(parts[-1])

    asyncio.run(both())


def calls(parts):
    found = [c for p in parts for c in p.message.tool_calls or []]
    equal([(c.function.name, c.function.arguments) for c in found], [("weather", {"city": "Paris"})], "the calls")


def tools(model, _):
    calls([client.chat(model=model, messages=CALL, tools=TOOLS)])


def tools_stream(model, _):
    calls(client.chat(model=model, messages=CALL, tools=TOOLS, stream=True))


def refused(status, c, **request):
    e = raised(ollama.ResponseError, c.chat, messages=MESSAGES, options={"num_predict": 1}, **request)
    equal(e.status_code, status, "status_code")
    assert isinstance(e.error, str) and len(e.error) > 4 and not e.error.startswith("{"), f"the error is no text: {e.error}"


def unauthorized(model, _):
    refused(401, ollama.Client(host=ORIGIN, headers={"Authorization": f"Bearer {WRONG_KEY}"}), model=model)


def not_found(*_):
    refused(404, client, model=MISSING)


def hold(model):
    """Begins a stream that does not end, and returns what leaves it."""
    s = client.chat(model=model, messages=TALK, stream=True)
    for part in s:
        if part.message.content:
            return s.close
    raise AssertionError("the stream ended")


def full(_, single):
    let_go = hold(single)
    refused(429, ollama.Client(host=ORIGIN, headers={**KEY, **NEVER}), model=single)
    let_go()


def cut_off(model, _):
    cut(model, ollama.ResponseError, lambda: (p.message.content for p in client.chat(model=model, messages=TALK, stream=True)), says=ENGINE_FAILED)


def asynchronous_cut_off(model, _):
    async def pieces():
        async for part in await ollama.AsyncClient(host=ORIGIN, headers=KEY).chat(model=model, messages=TALK, stream=True):
            yield part.message.content

    cut_async(model, ollama.ResponseError, pieces, asyncio.run, ENGINE_FAILED)


def answer_cut_off(model, _):
    cut_whole(model, ollama.ResponseError, lambda: client.chat(model=model, messages=TALK), CUTS[:2], ENGINE_FAILED)


def not_allowed(model, _):
    """Ollama would load the model again for this option, and keep it for as long as this field says."""
    refused_for("options", options={"num_ctx": 4096}, model=model)
    refused_for("keep_alive", keep_alive="1h", model=model)


def refused_for(field, **request):
    e = raised(ollama.ResponseError, client.chat, messages=MESSAGES, **request)
    equal(e.status_code, 400, "status_code")
    assert f'the field "{field}"' in e.error and "allow_fields" in e.error, f"the error says {e.error}"


def allowed(model, _):
    done(client.chat(model=model, messages=MESSAGES, options={"num_ctx": 4096}))


def left_early(_, single):
    hold(single)()
    left(single)


def generate(model, _):
    r = client.generate(model=model, prompt=PROMPT)
    equal(r.response, SAID, "response")
    done(r)


def generate_stream(model, _):
    parts = list(client.generate(model=model, prompt=PROMPT, stream=True))
    equal("".join(p.response for p in parts), SAID, "text")
    done(parts[-1])


def generate_cut_off(model, _):
    cut(model, ollama.ResponseError, lambda: (p.response for p in client.generate(model=model, prompt="talk", stream=True)), says=ENGINE_FAILED)


def embed(model, _):
    r = client.embed(model=model, input=["one", "two"])
    equal(len(r.embeddings), 2, "vectors")
    assert len(r.embeddings[0]) > 1, "the vector is empty"


def embeddings(model, _):
    assert len(client.embeddings(model=model, prompt="one").embedding) > 1, "the vector is empty"


def listed(model, _):
    names = [m.model for m in client.list().models]
    assert model in names, f"{model} is not among {names}"


def running(model, _):
    names = [m.model for m in client.ps().models]
    assert model in names, f"{model} is not among {names}"


def show(model, _):
    r = client.show(model)
    assert "completion" in r.capabilities, f"capabilities: {r.capabilities}"
    equal(raised(ollama.ResponseError, client.show, MISSING).status_code, 404, "status_code")


differs("/api/chat", "`num_ctx` and other `options` for which Ollama loads the model again, and `keep_alive`, get a 400 that names the field "
        "(`ResponseError`), unless the model's document has them under `allow_fields`")

run({
    **for_kinds("/api/chat", {
        "plain": plain, "stream": stream, "asynchronous client": asynchronous, "tools": tools, "tools, stream": tools_stream,
        "401 ResponseError": unauthorized, "404 ResponseError": not_found, "429 ResponseError": full,
        "stream that is cut": cut_off, "asynchronous stream that is cut": asynchronous_cut_off, "answer that is cut": answer_cut_off,
        "stream left early": left_early, "400 ResponseError for num_ctx and keep_alive": not_allowed,
    }),
    **for_kinds("/api/chat", {"num_ctx with allow_fields": allowed}, "loading"),
    **for_kinds("/api/generate", {"plain": generate, "stream": generate_stream, "stream that is cut": generate_cut_off}),
    **for_kinds("/api/embed", {"embed": embed}, "embed"),
    **for_kinds("/api/embeddings", {"embeddings": embeddings}, "embed"),
    **for_kinds("/api/tags", {"list": listed}),
    **for_kinds("/api/ps", {"ps": functools.partial(eventually, running)}),
    **for_kinds("/api/show", {"show": show}),
})
