package openai

import "colonnade/reasons"

// ParseClientError returns an engine's error of the class [ClientError] as an Error, with its message, type, param and
// code, for places where the engine's body cannot be passed on. status is the engine's. A body that cannot be read
// leaves the fields empty.
func ParseClientError(status int, body []byte) *Error {
	e := InvalidRequest("", "the inference engine refused the request")
	e.Status = status
	parsed := *e
	s := scan{b: body, lax: true}
	for key, ok := s.firstMember(); ok; key, ok = s.nextMember() {
		switch {
		case string(key) != "error":
			s.skip()
		case s.space() == '{':
			parsed.read(&s)
		default: // the message itself, as Ollama and TGI have it
			if text := s.text(); len(text) > 0 {
				parsed.Message = string(truncate(text, maxEngineMessage))
			}
		}
	}
	if s.end() {
		return &parsed
	}
	return e
}

// parseStreamError returns the error for a client whose stream an engine has ended with an error event of a status. It is the number of an
// error that the engine answers with before the stream begins; the words are the engine's, as in a stream that is not translated.
func parseStreamError(status int, body []byte) *Error {
	said := ParseClientError(status, body)
	switch ClassifyStatus(status) {
	case ClientError:
		return said
	case Misconfigured: // which may repeat the gateway's credential
		return EngineMisconfigured(reasons.EndpointMisconfigured, status)
	}
	e := EngineFailed(reasons.EngineStatus)
	e.Message += ": " + said.Message
	return e
}

// read reads the object of an error.
func (e *Error) read(s *scan) {
	for key, ok := s.firstMember(); ok; key, ok = s.nextMember() {
		var field *string
		switch string(key) {
		case "message":
			field = &e.Message
		case "type":
			field = &e.Type
		case "param":
			field = &e.Param
		case "code":
			field = &e.Code
		default:
			s.skip()
			continue
		}
		if text := s.text(); len(text) > 0 {
			*field = string(truncate(text, maxEngineMessage))
		}
	}
}
