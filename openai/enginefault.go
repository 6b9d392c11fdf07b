package openai

import (
	"fmt"
	"strings"

	"colonnade/internal/ascii"
)

// maxEngineCode bounds the part of an engine's code that goes into logs.
const maxEngineCode = 64

// EngineError is an error that an engine sent as an event.
type EngineError struct {
	Status int    // the HTTP status that corresponds to it, see [ClassifyStatus]
	Code   string // the engine's code: letters, digits and . _ - only; may be empty
	// Number and Reason are those of an [Error], if the event comes from another node.
	Number int
	Reason string // letters, digits and . _ - only
}

// Error returns the status and the code, but not the message, which may repeat a prompt.
func (e *EngineError) Error() string {
	return fmt.Sprintf("the engine answered with an error event: status %d, code %q", e.Status, e.Code)
}

// engineFault gathers the members of an engine's error.
type engineFault struct {
	status int    // a number that is an HTTP status
	code   []byte // a code that is a word
	class  []byte // its type
	number int    // in an error of a node
	reason []byte // in an error of a node
}

// errorValue passes the value of a member error, and reports whether SDKs take it for an error: it is not null, false,
// 0 or "".
func (s *scan) errorValue(f *engineFault) bool {
	if s.space() != '{' {
		raw, ok := s.value()
		switch string(raw) {
		case "null", "false", "0", `""`:
			return false
		}
		return ok
	}
	for key, more := s.firstMember(); more; key, more = s.nextMember() {
		if string(key) == "type" {
			f.class = s.text()
			continue
		}
		s.errorMember(key, f)
	}
	return true
}

// errorMember passes a member that describes an error, inside the member error or beside it. It reports whether the
// member alone makes the message an error: some engines send {"object":"error"}.
func (s *scan) errorMember(key []byte, f *engineFault) (failed bool) {
	switch string(key) {
	case "code", "status", "status_code", "http_status_code":
		raw, _ := s.value()
		f.setCode(raw)
	case "error_type":
		f.class = s.text()
	case "number":
		s.count(&f.number)
	case "reason":
		f.reason = s.text()
	case "object":
		return string(s.text()) == "error"
	default:
		s.skip()
	}
	return false
}

// setCode takes a code: a status, as a number or as text, or a word.
func (f *engineFault) setCode(raw []byte) {
	text, quoted := raw, false
	if raw = unescaped(raw); raw != nil {
		text, quoted = raw, true
	}
	switch n, ok := ascii.ParseUint(text); {
	case ok && n >= 400 && n <= 599:
		f.status = n
	case quoted && !ok:
		f.code = text
	}
}

// engineError decides which members count: first a status, then a known word. Anything unknown is a failure of the
// engine.
func (f *engineFault) engineError() EngineError {
	e := EngineError{Status: f.status, Code: plainCode(f.code)}
	if e.Code == "" {
		e.Code = plainCode(f.class)
	}
	if e.Status == 0 {
		e.Status = statusOf(string(f.code))
	}
	if e.Status == 0 {
		e.Status = statusOf(string(f.class))
	}
	if e.Status == 0 {
		e.Status = 500
	}
	if f.number != 0 {
		e.Number, e.Reason = f.number, plainCode(f.reason)
	}
	return e
}

// statusOf returns the status of a word of OpenAI's or an engine's, or 0.
func statusOf(word string) int {
	switch strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "").Replace(word)) {
	case "ratelimitexceeded", "ratelimiterror", "toomanyrequests", "toomanyrequestserror", "insufficientquota", "queuefull":
		return 429
	case "overloaded", "overloadederror", "serveroverloaded", "engineoverloaded", "serviceunavailable",
		"serviceunavailableerror", "unavailable", "unavailableerror", "outofcapacity":
		return 503
	case "invalidrequesterror", "invalidrequest", "badrequest", "badrequesterror", "contextlengthexceeded",
		"invalidprompt", "validation", "validationerror", "exceedcontextsizeerror", "contentfilter":
		return 400
	case "requesttoolarge":
		return 413
	case "invalidapikey", "authenticationerror", "unauthorized":
		return 401
	case "permissionerror", "permissiondenied", "forbidden":
		return 403
	case "modelnotfound", "notfounderror", "notfound":
		return 404
	}
	return 0
}

// plainCode returns a code if it is one word; anything else might be a message.
func plainCode(word []byte) string {
	if len(word) > maxEngineCode {
		return ""
	}
	for _, c := range word {
		if !ascii.IsAlphanumeric(c) && c != '_' && c != '-' && c != '.' {
			return ""
		}
	}
	return string(word)
}
