"""A stream that the engine cuts: what does the SDK tell the program?

    python cut.py chat|completions|responses|transcriptions

COLONNADE_MODEL names the model whose engine cuts its answers. Prints one line of JSON and exits with 0 if the SDK
raised an error of its own after it had delivered something. Retries are the SDK's default: whoever set the fault
counts the requests.
"""

import json
import sys

import openai

from common import API_KEY, BASE_URL, need

client = openai.OpenAI(base_url=BASE_URL, api_key=API_KEY)
MODEL = need("COLONNADE_MODEL")
PROMPT = "talk"


def chat():
    messages = [{"role": "user", "content": PROMPT}]
    for c in client.chat.completions.create(model=MODEL, messages=messages, stream=True):
        yield c.choices[0].delta.content if c.choices else None


def completions():
    for c in client.completions.create(model=MODEL, prompt=PROMPT, stream=True):
        yield c.choices[0].text if c.choices else None


def responses():
    for e in client.responses.create(model=MODEL, input=PROMPT, stream=True):
        if e.type == "response.output_text.delta":
            yield e.delta


def transcriptions():
    file = ("speech.wav", bytes(4096))
    for e in client.audio.transcriptions.create(model=MODEL, file=file, stream=True):
        if e.type == "transcript.text.delta":
            yield e.delta


apis = {"chat": chat, "completions": completions, "responses": responses, "transcriptions": transcriptions}
api = sys.argv[1] if len(sys.argv) == 2 else ""
if api not in apis:
    print("usage: python cut.py " + "|".join(apis), file=sys.stderr)
    sys.exit(2)

delivered, text, error = 0, "", None
try:
    for piece in apis[api]():
        if piece:
            delivered += 1
            text += piece
except Exception as e:
    error = e

own = isinstance(error, openai.OpenAIError)
print(json.dumps({
    "sdk": "python", "api": api, "error_class": type(error).__name__ if error else None, "own": own,
    "message": str(error)[:200] if error else "", "code": getattr(error, "code", None),
    "delivered": delivered, "text": text,
}))
if error is None:
    print("the SDK took the cut stream for a complete one", file=sys.stderr)
elif delivered == 0:
    print("nothing was delivered before the error", file=sys.stderr)
elif not own:
    print("the error is not one of the SDK's own", file=sys.stderr)
sys.exit(0 if error is not None and delivered > 0 and own else 1)
