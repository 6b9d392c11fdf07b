package openai

import "strconv"

// ModelInfo is a model in the form that clients get.
type ModelInfo struct {
	ID      string
	Created int64 // Unix seconds
	OwnedBy string
}

// AppendModel appends the answer to GET /v1/models/{model}.
func AppendModel(dst []byte, m ModelInfo) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, m.ID)
	dst = append(dst, `,"object":"model","created":`...)
	dst = strconv.AppendInt(dst, m.Created, 10)
	dst = append(dst, `,"owned_by":`...)
	dst = appendString(dst, m.OwnedBy)
	return append(dst, '}')
}

// AppendModelList appends the answer to GET /v1/models.
func AppendModelList(dst []byte, models []ModelInfo) []byte {
	dst = append(dst, `{"object":"list","data":[`...)
	for i, m := range models {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendModel(dst, m)
	}
	return append(dst, ']', '}')
}

// ListedModels returns the names in an engine's answer to GET /v1/models, adapters included. ok is false if it is no such list.
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
			if name := memberString(&s, "id"); name != nil {
				text, _ := appendUnescaped(nil, name)
				names = append(names, string(text))
			}
		}
	}
	return names, ok && s.end()
}
