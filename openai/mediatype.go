package openai

import (
	"strings"

	"colonnade/internal/ascii"
)

// IsJSON reports whether an answer of this content type is JSON.
func IsJSON(contentType string) bool { return isJSON(contentType) }

// IsHTML reports whether an answer of this content type is a web page, which no API returns.
func IsHTML(contentType string) bool {
	media, _ := splitMediaType(contentType)
	return ascii.EqualFold(media, "text/html") || ascii.EqualFold(media, "application/xhtml+xml")
}

// isJSON accepts application/json and its relatives (application/…+json), in UTF-8. With another charset, an engine
// might read other characters than these.
func isJSON(contentType string) bool {
	if contentType == "application/json" { // nearly all are spelled so
		return true
	}
	media, params := splitMediaType(contentType)
	if !ascii.EqualFold(media, "application/json") && !isJSONSuffix(media) {
		return false
	}
	return inUTF8(params)
}

func isJSONSuffix(media string) bool {
	const prefix, suffix = "application/", "+json"
	return len(media) > len(prefix)+len(suffix) && ascii.EqualFold(media[:len(prefix)], prefix) &&
		ascii.EqualFold(media[len(media)-len(suffix):], suffix)
}

// isUntyped reports whether a content type says nothing of the body. Some of Ollama's clients send it, since Ollama does not look at the type.
func isUntyped(contentType string) bool {
	media, _ := splitMediaType(contentType)
	return ascii.EqualFold(media, "application/octet-stream")
}

func isForm(contentType string) bool {
	media, _ := splitMediaType(contentType)
	return ascii.EqualFold(media, "multipart/form-data")
}

func splitMediaType(contentType string) (media, params string) {
	media, params, _ = strings.Cut(contentType, ";")
	for len(media) > 0 && (media[0] == ' ' || media[0] == '\t') {
		media = media[1:]
	}
	for len(media) > 0 && (media[len(media)-1] == ' ' || media[len(media)-1] == '\t') {
		media = media[:len(media)-1]
	}
	return media, params
}

// inUTF8 checks every parameter that is a charset or may be taken for one.
func inUTF8(params string) bool {
	for params != "" {
		var param string
		param, params, _ = strings.Cut(params, ";")
		name, value, _ := strings.Cut(param, "=")
		name = strings.Trim(name, " \t")
		if len(name) < len("charset") || !ascii.EqualFold(name[:len("charset")], "charset") {
			continue
		}
		if !isUTF8(strings.Trim(value, " \t\"")) {
			return false
		}
	}
	return true
}

// isUTF8 reports whether a charset is UTF-8, or a part of it.
func isUTF8(charset string) bool {
	return ascii.EqualFold(charset, "utf-8") || ascii.EqualFold(charset, "utf8") || ascii.EqualFold(charset, "us-ascii")
}

// isNested reports whether content of this type has parts, or a head, of its own.
func isNested(contentType string) bool {
	media, _ := splitMediaType(contentType)
	kind, _, _ := strings.Cut(media, "/")
	return ascii.EqualFold(kind, "multipart") || ascii.EqualFold(kind, "message")
}

// IsEventStream reports whether an answer of this content type is a stream of server-sent events.
func IsEventStream(contentType []byte) bool {
	const media = "text/event-stream"
	for len(contentType) > 0 && (contentType[0] == ' ' || contentType[0] == '\t') {
		contentType = contentType[1:]
	}
	if len(contentType) < len(media) || !ascii.EqualFold(contentType[:len(media)], media) {
		return false
	}
	rest := contentType[len(media):]
	return len(rest) == 0 || rest[0] == ';' || rest[0] == ' ' || rest[0] == '\t'
}
