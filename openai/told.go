package openai

// ToldError is an engine's error of the class [ClientError] as one of ours: with its message, type, param and code, for
// where its body cannot be passed on as it is. status is what it came with; of a body that cannot be read nothing is
// told.
func ToldError(status int, body []byte) *Error {
	e := InvalidRequest("", "the inference engine refused the request")
	e.Status = status
	told := *e
	s := scan{b: body, lax: true}
	for key, ok := s.firstMember(); ok; key, ok = s.nextMember() {
		if string(key) == "error" && s.space() == '{' {
			told.read(&s)
		} else {
			s.skip()
		}
	}
	if s.end() {
		return &told
	}
	return e
}

// read takes what the object of an error says.
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
		if said := s.text(); len(said) > 0 {
			*field = string(cutBytes(said, maxEngineMessage))
		}
	}
}
