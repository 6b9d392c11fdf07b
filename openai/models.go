package openai

// ListedModels returns the names in an engine's answer to GET /v1/models, adapters included. A router of llama.cpp lists all models that it
// could load: those that are not loaded are left out. ok is false if it is no such list.
func ListedModels(body []byte) (names []string, ok bool) {
	s := scan{b: body, lax: true}
	names = []string{}
	for key, more := s.firstMember(); more; key, more = s.nextMember() {
		if string(key) != "data" || s.space() != '[' {
			s.skip()
			continue
		}
		ok = true
		for element := s.firstElement(); element; element = s.nextElement() {
			if name, loaded := listedModel(&s); loaded {
				names = append(names, name)
			}
		}
	}
	return names, ok && s.end()
}

// listedModel reads one element of a list of models.
func listedModel(s *scan) (name string, loaded bool) {
	if s.space() != '{' {
		s.skip()
		return "", false
	}
	state := ""
	for key, more := s.firstMember(); more; key, more = s.nextMember() {
		switch string(key) {
		case "id":
			name = string(s.text())
		case "status":
			state = string(memberString(s, "value"))
		default:
			s.skip()
		}
	}
	return name, name != "" && state != "unloaded"
}
