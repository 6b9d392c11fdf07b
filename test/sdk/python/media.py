"""Checks of the paths of the openai package for audio, images and realtime sessions, with engines of each kind that has them."""

import httpx2  # which openai uses
import openai
from common import API_KEY, BASE_URL, CUTS, MISSING, PROMPT, SAID, WRONG_KEY, cut, differs, equal, for_kinds, left, raised
from websockets.exceptions import ConnectionClosedError, InvalidStatus

client = openai.OpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0)
retrying = openai.OpenAI(base_url=BASE_URL, api_key=API_KEY)  # as the SDK does it by default
stranger = client.with_options(api_key=WRONG_KEY)
RECORDING = ("speech.wav", bytes(4096))
PICTURE = ("picture.png", bytes(1024), "image/png")


def refused(send):
    """Makes checks of refusals. send gets a client and the name of a model."""
    return {
        "401 AuthenticationError": lambda model, _: raised(openai.AuthenticationError, send, stranger, model),
        "404 NotFoundError": lambda *_: raised(openai.NotFoundError, send, client, MISSING),
    }


def cut_off(send, piece):
    """Makes a check that reads a stream which the engine cuts."""
    return lambda model, _: cut(model, openai.OpenAIError, lambda: map(piece, send(retrying, model, stream=True)))


def speak(of, model):
    return of.audio.speech.create(model=model, voice="alloy", input="one")


def speech(model, _):
    r = speak(client, model)
    equal(r.response.headers["content-type"], "audio/mpeg", "content-type")
    assert len(r.content) > 1024, "hardly any audio"


def speech_cut_off(model, _):
    """An answer of bytes has no end but HTTP's."""
    def pieces():
        streamed = retrying.audio.speech.with_streaming_response
        with streamed.create(model=model, voice="alloy", input="one", extra_body={"bytes": 4 << 20}) as r:
            yield from r.iter_bytes()

    cut(model, httpx2.RemoteProtocolError, pieces, CUTS[:2])


def transcribe(of, model, prompt=PROMPT, **more):
    return of.audio.transcriptions.create(model=model, file=RECORDING, prompt=prompt, **more)


def transcription(model, _):
    r = transcribe(client, model)
    equal((r.text, r.usage.output_tokens), (SAID, 4), "the answer")


def transcription_stream(model, _):
    events = list(transcribe(client, model, stream=True))
    equal("".join(e.delta for e in events[:-1]), SAID, "text")
    equal((events[-1].type, events[-1].text), ("transcript.text.done", SAID), "the last event")


def text(model, _):
    equal(transcribe(client, model, response_format="text").strip(), SAID, "text")


def verbose(model, _):
    equal(transcribe(client, model, response_format="verbose_json").text, SAID, "text")


def translation(model, _):
    equal(client.audio.translations.create(model=model, file=RECORDING, prompt=PROMPT).text, SAID, "text")


def draw(of, model, **more):
    return of.images.generate(model=model, prompt="a heron", **more)


def edit(of, model, **more):
    return of.images.edit(model=model, prompt="a heron", image=PICTURE, **more)


def vary(of, model):
    return of.images.create_variation(model=model, image=PICTURE)


def picture(send):
    def check(model, _):
        assert len(send(client, model).data[0].b64_json) > 8, "no picture"

    return check


def picture_stream(send, last):
    def check(model, _):
        events = list(send(client, model, stream=True, partial_images=2))
        assert len(events) > 1 and all(e.type.endswith(".partial_image") for e in events[:-1]), "the partial images"
        equal(events[-1].type, last, "the last event")
        assert len(events[-1].b64_json) > 8, "no picture"

    return check


def begin_response(c, words):
    c.conversation.item.create(item={"type": "message", "role": "user", "content": [{"type": "input_text", "text": words}]})
    c.response.create()


def response(model, _):
    with client.realtime.connect(model=model) as c:
        begin_response(c, PROMPT)
        said = ""
        for event in c:
            if event.type == "response.output_text.delta":
                said += event.delta
            if event.type == "response.done":
                break
        equal(said, SAID, "text")
        equal((event.response.status, event.response.usage.output_tokens), ("completed", 4), "the end")
    left(model)


def session_cut_off(model, _):
    def pieces():
        with client.realtime.connect(model=model) as c:
            begin_response(c, "talk")
            for event in c:
                if event.type == "response.done":
                    return
                if event.type == "response.output_text.delta":
                    yield event.delta

    cut(model, ConnectionClosedError, pieces, CUTS[:2])


def connection_refused(status):
    def check(model, _):
        of, asked = (stranger, model) if status == 401 else (client, MISSING)
        equal(raised(InvalidStatus, of.realtime.connect(model=asked).enter).response.status_code, status, "status")

    return check


differs("/v1/audio/speech", "an answer that is cut raises an error of the HTTP library (`RemoteProtocolError`), since the SDK hands over the bytes of the response as they come")
differs("/v1/realtime", "refusals and lost sessions are errors of the package `websockets`, which the SDK uses")

CHECKS = {
    **for_kinds("/v1/audio/speech", {"plain": speech, "answer that is cut": speech_cut_off, **refused(speak)}, "audio"),
    **for_kinds("/v1/audio/transcriptions", {
        "plain": transcription, "text": text, "verbose_json": verbose, "stream": transcription_stream,
        "stream that is cut": cut_off(lambda of, model, **more: transcribe(of, model, "talk", **more), lambda e: getattr(e, "delta", None)),
        **refused(transcribe),
    }, "audio"),
    **for_kinds("/v1/audio/translations", {"plain": translation}, "audio"),
    **for_kinds("/v1/images/generations", {
        "plain": picture(draw), "stream": picture_stream(draw, "image_generation.completed"),
        "stream that is cut": cut_off(draw, lambda e: e.b64_json), **refused(draw),
    }, "image"),
    **for_kinds("/v1/images/edits", {
        "plain": picture(edit), "stream": picture_stream(edit, "image_edit.completed"), "stream that is cut": cut_off(edit, lambda e: e.b64_json),
    }, "image"),
    **for_kinds("/v1/images/variations", {"plain": picture(vary)}, "image"),
    **for_kinds("/v1/realtime", {
        "response": response, "session that is cut": session_cut_off,
        "401 InvalidStatus": connection_refused(401), "404 InvalidStatus": connection_refused(404),
    }, "realtime"),
}
