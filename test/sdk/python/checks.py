"""Checks of the openai package: every plain and streamed API that a fleet serves."""

import asyncio
import struct

from openai import AsyncOpenAI, OpenAI

from common import API_KEY, BASE_URL, CHAT_MODEL, EMBED_MODEL, equal, run

client = OpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0)
PROMPT = "echo: one two three four"
SAID = "one two three four"
MESSAGES = [{"role": "user", "content": PROMPT}]


def sane(usage, completion):
    equal(usage.completion_tokens, completion, "usage.completion_tokens")
    equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens, "usage.total_tokens")


def chat_plain():
    r = client.chat.completions.create(model=CHAT_MODEL, messages=MESSAGES)
    equal(r.choices[0].message.content, SAID, "content")
    equal(r.choices[0].finish_reason, "stop", "finish_reason")
    sane(r.usage, 4)


def chat_max_tokens():
    r = client.chat.completions.create(model=CHAT_MODEL, messages=MESSAGES, max_tokens=2)
    equal(r.choices[0].message.content, "one two", "content")
    equal(r.choices[0].finish_reason, "length", "finish_reason")


def chat_stream():
    text, reason = "", None
    for chunk in client.chat.completions.create(model=CHAT_MODEL, messages=MESSAGES, stream=True):
        equal(len(chunk.choices), 1, "choices of a chunk, when no usage was asked for")
        assert chunk.usage is None, "usage came, though it was not asked for"
        text += chunk.choices[0].delta.content or ""
        reason = chunk.choices[0].finish_reason or reason
    equal(text, SAID, "text")
    equal(reason, "stop", "finish_reason")


def chat_stream_usage():
    for last in client.chat.completions.create(
        model=CHAT_MODEL, messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    ):
        pass
    equal(last.choices, [], "choices of the last chunk")
    sane(last.usage, 4)


def chat_stream_helper():
    with client.chat.completions.stream(model=CHAT_MODEL, messages=MESSAGES) as stream:
        r = stream.get_final_completion()
    equal(r.choices[0].message.content, SAID, "content")


def chat_stream_left_early():
    with client.chat.completions.create(
        model=CHAT_MODEL, messages=[{"role": "user", "content": "talk"}], stream=True
    ) as stream:
        for chunk in stream:
            if chunk.choices[0].delta.content:
                break


def chat_async():
    async def both():
        async with AsyncOpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0) as c:
            r = await c.chat.completions.create(model=CHAT_MODEL, messages=MESSAGES)
            equal(r.choices[0].message.content, SAID, "content")
            text = ""
            async for chunk in await c.chat.completions.create(model=CHAT_MODEL, messages=MESSAGES, stream=True):
                text += chunk.choices[0].delta.content or ""
            equal(text, SAID, "text")

    asyncio.run(both())


def responses_plain():
    r = client.responses.create(model=CHAT_MODEL, input=PROMPT)
    equal(r.output_text, SAID, "output_text")
    equal(r.status, "completed", "status")
    equal(r.usage.output_tokens, 4, "usage.output_tokens")


def responses_stream():
    text = ""
    for n, event in enumerate(client.responses.create(model=CHAT_MODEL, input=PROMPT, stream=True)):
        equal(event.sequence_number, n, "sequence_number")
        if event.type == "response.output_text.delta":
            text += event.delta
    equal(text, SAID, "text")
    equal(event.type, "response.completed", "the last event")
    equal(event.response.usage.output_tokens, 4, "usage.output_tokens")


def responses_stream_helper():
    with client.responses.stream(model=CHAT_MODEL, input=PROMPT) as stream:
        r = stream.get_final_response()
    equal(r.output_text, SAID, "output_text")


def responses_incomplete():
    r = client.responses.create(model=CHAT_MODEL, input=PROMPT, max_output_tokens=2)
    equal(r.status, "incomplete", "status")
    equal(r.incomplete_details.reason, "max_output_tokens", "reason")


def completions_plain():
    r = client.completions.create(model=CHAT_MODEL, prompt=PROMPT)
    equal(r.choices[0].text, SAID, "text")
    sane(r.usage, 4)


def completions_stream():
    text = ""
    for chunk in client.completions.create(model=CHAT_MODEL, prompt=PROMPT, stream=True):
        assert chunk.usage is None, "usage came, though it was not asked for"
        text += chunk.choices[0].text
    equal(text, SAID, "text")


def embeddings():
    given = ["one", "two"]
    coded = client.embeddings.create(model=EMBED_MODEL, input=given)  # base64 on the wire
    plain = client.embeddings.create(model=EMBED_MODEL, input=given, encoding_format="float")
    equal(len(coded.data), 2, "vectors")
    for i in range(2):
        vector = plain.data[i].embedding
        assert len(vector) > 1, "the vector is empty"
        single = list(struct.unpack(f"{len(vector)}f", struct.pack(f"{len(vector)}f", *vector)))
        equal(coded.data[i].embedding, single, f"vector {i}")


def models():
    ids = [m.id for m in client.models.list()]
    assert CHAT_MODEL in ids, f"{CHAT_MODEL} is not among {ids}"
    equal(client.models.retrieve(CHAT_MODEL).id, CHAT_MODEL, "id")


run({
    "python chat plain": chat_plain,
    "python chat max_tokens": chat_max_tokens,
    "python chat stream": chat_stream,
    "python chat stream with usage": chat_stream_usage,
    "python chat stream helper": chat_stream_helper,
    "python chat stream left early": chat_stream_left_early,
    "python chat async": chat_async,
    "python responses plain": responses_plain,
    "python responses stream": responses_stream,
    "python responses stream helper": responses_stream_helper,
    "python responses incomplete": responses_incomplete,
    "python completions plain": completions_plain,
    "python completions stream": completions_stream,
    "python embeddings": embeddings,
    "python models": models,
})
