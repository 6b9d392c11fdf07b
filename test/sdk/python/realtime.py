"""Checks of the realtime API through the openai package's own connection class."""

from openai import OpenAI
from websockets.exceptions import InvalidStatus

from common import API_KEY, BASE_URL, REALTIME_MODEL, equal, raised, run

client = OpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0)


def response():
    with client.realtime.connect(model=REALTIME_MODEL) as c:
        equal(c.recv().type, "session.created", "the first event")
        c.conversation.item.create(item={
            "type": "message", "role": "user", "content": [{"type": "input_text", "text": "echo: one two three four"}],
        })
        c.response.create()
        text = ""
        for event in c:
            if event.type == "response.output_text.delta":
                text += event.delta
            if event.type == "response.done":
                break
        equal(event.response.status, "completed", "status")
        equal(text, "one two three four", "text")


def unknown_model():
    e = raised(InvalidStatus, client.realtime.connect(model="no-such-model").enter)
    equal(e.response.status_code, 404, "status")


run({"python realtime response": response, "python realtime unknown model": unknown_model})
