package colo

import (
	"colonnade/fleet"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/openai/messages"
)

const (
	chatPath         = "/v1/chat/completions"
	tokenizePath     = "/tokenize"
	chatTokenizePath = "/chat_tokenize" // of TGI, whose /tokenize reads no chats
)

// maxTranslated is the longest answer in bytes that is translated as a whole.
const maxTranslated = openai.MaxEvent

// translated is a request on its way to an engine that lacks the path, and has another that does the same.
type translated struct {
	body   *[]byte    // for the engine; its memory is put back once it is sent
	api    openai.API // by which the engine is asked
	path   string
	asked  messages.Asked
	answer []byte // what the client gets, if that is whole
}

// translate translates the request if the engine of its permit needs that. It returns the error of a request that cannot be translated.
func (c *call) translate() *openai.Error {
	c.forgetTranslated()
	c.translated = nil
	if supportOf(c.grant.Endpoint, c.request.Route) != openai.Translated {
		return nil
	}
	return c.translateFor(c.grant.Endpoint)
}

func (c *call) translateFor(e *fleet.Endpoint) *openai.Error {
	t := &translated{body: c.server.edited.get(), api: openai.Chat, path: chatPath}
	c.translated = t
	var err *openai.Error
	if c.request.Route.API == openai.CountTokens {
		if t.api, t.path = openai.Tokenize, tokenizePath; e.Engine == "tgi" {
			t.path = chatTokenizePath
		}
		*t.body, err = messages.CountRequest((*t.body)[:0], c.raw, e.NameOf(c.model))
	} else {
		*t.body, t.asked, err = messages.Request((*t.body)[:0], c.raw, messages.Options{Model: e.NameOf(c.model), AskUsage: e.Usage == fleet.UsageAsk})
	}
	if err != nil {
		c.forgetTranslated()
	}
	return err
}

// checkTranslation finds out whether the request can be translated, if some endpoints of its pool need that and others pass it. Else which of them
// has a free slot would decide whether the request is refused.
func (c *call) checkTranslation(endpoints []*fleet.Endpoint) {
	if c.request.Route.API != openai.Messages && c.request.Route.API != openai.CountTokens {
		return
	}
	var translating *fleet.Endpoint
	passed := false
	for _, e := range endpoints {
		switch supportOf(e, c.request.Route) {
		case openai.Translated:
			translating = e
		case openai.Passed:
			passed = passed || !e.Draining()
		}
	}
	if translating == nil || !passed {
		return
	}
	c.untranslatable = c.translateFor(translating) != nil
	c.forgetTranslated()
	c.translated = nil
}

// answerUntranslated gives back the permit, and answers with the error as if the engine had sent it: a verdict cannot carry all of the error.
func (c *call) answerUntranslated(e *openai.Error) *peer.Answer {
	c.withdrawRefused(&refusal{err: e})
	return c.newAnswer(transport.NewAnswer(c.request.Route.API, e.Status, e.AppendBody(nil, c.request.Route.Dialect, c.token.RequestID)))
}

// forgetTranslated puts back the memory of the translated body.
func (c *call) forgetTranslated() {
	if t := c.translated; t != nil {
		c.server.edited.put(t.body)
		t.body = nil
	}
}

// readBy sets that the engine's answer is read by the API by which the engine was asked.
func (t *translated) readBy(r *transport.ReadOptions, requestID string) {
	r.API, r.StripUsage, r.Hold = t.api, false, maxTranslated
	if t.api == openai.Chat {
		r.Translate = messages.NewStream(&t.asked).Translator()
		r.Translate.RequestID = requestID
	}
}

// take translates a whole answer, and reports false for one that does not have the form of the engine's path.
func (t *translated) take(body []byte) bool {
	var err error
	if t.api == openai.Tokenize {
		t.answer, err = messages.CountResponse(nil, body)
	} else {
		t.answer, err = messages.Response(nil, body, &t.asked)
	}
	return err == nil
}

// engineAPI returns the API that the engine is asked by.
func (c *call) engineAPI() openai.API {
	if c.translated != nil {
		return c.translated.api
	}
	return c.request.Route.API
}

// enginePath returns the path that the engine is asked for, unless the endpoint has one of its own for it.
func (c *call) enginePath() string {
	if c.translated != nil {
		return c.translated.path
	}
	return c.request.Route.Path
}
