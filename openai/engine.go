package openai

// maxEngineMessage bounds the part of an engine's message that goes into a wrapped error.
const maxEngineMessage = 2 << 10

// EngineClass is the meaning of an engine's status for the request.
type EngineClass uint8

const (
	Relay         EngineClass = iota + 1 // this is the answer
	ClientError                          // the client's fault: it gets the engine's error
	Misconfigured                        // the endpoint refuses us for a reason that the client cannot change
	Failed                               // a failure of the endpoint
	Full                                 // no room at the moment
)

// ClassifyStatus returns the meaning of an engine's HTTP status.
func ClassifyStatus(status int) EngineClass {
	switch status {
	case 400, 413, 422:
		return ClientError
	case 408, 409, 424:
		return Failed
	case 429, 503:
		return Full
	}
	switch {
	case status >= 200 && status < 300:
		return Relay
	case status >= 400 && status < 500:
		return Misconfigured
	}
	return Failed
}

// WrapClientError returns the body for an engine's answer of the class ClientError to a client of a dialect: an error of that shape
// unchanged, another one wrapped into that shape, with the engine's own message if one is found.
func WrapClientError(d Dialect, status int, body []byte, requestID string) []byte {
	if hasShape(d, body) {
		return body
	}
	s := scan{b: body, lax: true}
	said, shaped := engineMessage(&s)
	if s.fault != noFault || !s.end() {
		said, shaped = nil, false
	}
	if shaped { // as OpenAI's API has it, which engines send at the paths of others too
		return ParseClientError(status, body).AppendBody(nil, d, requestID)
	}
	e := InvalidRequest("", "the inference engine refused the request")
	e.Status = status
	if status == 413 {
		e = RequestTooLarge(0)
		e.Message = "the request is too large for the inference engine"
	}
	if text, _ := appendUnescaped(nil, said); len(text) > 0 {
		e.Message += ": " + string(truncate(text, maxEngineMessage))
	}
	return e.AppendBody(nil, d, requestID)
}

// hasShape reports whether a body is an error in the shape of a dialect.
func hasShape(d Dialect, body []byte) bool {
	s := scan{b: body, lax: true}
	var typ, errorType, text, object bool
	for key, ok := s.firstMember(); ok; key, ok = s.nextMember() {
		switch string(key) {
		case "type":
			typ = string(s.text()) == "error"
		case "error_type":
			errorType = s.text() != nil
		case "error":
			if text = s.space() == '"'; text {
				s.skip()
			} else {
				object = memberString(&s, "message") != nil || object
			}
		default:
			s.skip()
		}
	}
	switch whole := s.end(); d {
	case DialectAnthropic:
		return whole && typ && object
	case DialectOllama:
		return whole && text
	case DialectTGI, DialectTEI:
		return whole && text && errorType
	default:
		return whole && object
	}
}

// engineMessage looks for an engine's message in the shapes that engines use: error.message (OpenAI's own, shaped),
// error, message, detail, detail[0].msg.
func engineMessage(s *scan) (said []byte, shaped bool) {
	for key, ok := s.firstMember(); ok; key, ok = s.nextMember() {
		switch string(key) {
		case "error":
			if s.peek() == '{' {
				if text := memberString(s, "message"); text != nil {
					said, shaped = text, true
				}
				continue
			}
			said = orElse(said, s)
		case "message":
			said = orElse(said, s)
		case "detail":
			if s.peek() == '[' {
				for more := s.firstElement(); more; more = s.nextElement() {
					said = keep(said, memberString(s, "msg"))
				}
				continue
			}
			said = orElse(said, s)
		default:
			s.skip()
		}
	}
	return said, shaped
}

// orElse passes a value. It returns said if that is set, and otherwise the value if it is a string.
func orElse(said []byte, s *scan) []byte {
	raw, _ := s.value()
	text, _ := unquoted(raw)
	return keep(said, text)
}

func keep(first, second []byte) []byte {
	if first == nil {
		return second
	}
	return first
}

// memberString passes a value. If the value is an object with a string member of that name, it returns the inside of
// the string.
func memberString(s *scan, name string) []byte {
	if s.space() != '{' {
		s.skip()
		return nil
	}
	var found []byte
	for key, ok := s.firstMember(); ok; key, ok = s.nextMember() {
		is := string(key) == name
		raw, _ := s.value()
		if text, quoted := unquoted(raw); is && quoted {
			found = text
		}
	}
	return found
}
