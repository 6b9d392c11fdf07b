package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

// ModelInfo is a model, or an alias of one, as clients get it.
type ModelInfo struct {
	ID          string
	AliasOf     string // the model's own name; empty if ID is that
	Type        string // as in the model's document
	Created     time.Time
	OwnedBy     string
	MaxModelLen int // tokens of prompt and answer together; 0 = not known
}

// AppendModel appends the answer to GET /v1/models/{model} in a dialect: Anthropic's or, for any other, OpenAI's.
func AppendModel(dst []byte, m *ModelInfo, d Dialect) []byte {
	if d == DialectAnthropic {
		return appendAnthropicModel(dst, m)
	}
	dst = appendString(append(dst, `{"id":`...), m.ID)
	dst = append(dst, `,"object":"model","created":`...)
	dst = strconv.AppendInt(dst, m.Created.Unix(), 10)
	dst = appendString(append(dst, `,"owned_by":`...), m.OwnedBy)
	if m.AliasOf != "" {
		dst = appendString(append(dst, `,"alias_of":`...), m.AliasOf)
	}
	if m.MaxModelLen > 0 {
		dst = strconv.AppendInt(append(dst, `,"max_model_len":`...), int64(m.MaxModelLen), 10)
	}
	return append(dst, '}')
}

// appendAnthropicModel appends a model of Anthropic's API.
func appendAnthropicModel(dst []byte, m *ModelInfo) []byte {
	dst = appendString(append(dst, `{"type":"model","id":`...), m.ID)
	dst = appendString(append(dst, `,"display_name":`...), m.ID)
	dst = appendTime(append(dst, `,"created_at":`...), m.Created)
	if m.MaxModelLen > 0 {
		dst = strconv.AppendInt(append(dst, `,"max_input_tokens":`...), int64(m.MaxModelLen), 10)
	}
	return append(dst, '}')
}

// AppendModelList appends the answer to GET /v1/models in a dialect, and for that of Ollama the answer to GET /api/tags. All models are on the one
// page that there is.
func AppendModelList(dst []byte, models []ModelInfo, d Dialect) []byte {
	switch d {
	case DialectOllama:
		return append(appendList(append(dst, `{"models":`...), models, appendTag), '}')
	case DialectAnthropic:
		first, last := "", ""
		if len(models) > 0 {
			first, last = models[0].ID, models[len(models)-1].ID
		}
		dst = appendList(append(dst, `{"data":`...), models, appendAnthropicModel)
		dst = appendStringOrNull(append(dst, `,"has_more":false,"first_id":`...), first)
		dst = appendStringOrNull(append(dst, `,"last_id":`...), last)
		return append(dst, '}')
	}
	return append(appendList(append(dst, `{"object":"list","data":`...), models, func(dst []byte, m *ModelInfo) []byte {
		return AppendModel(dst, m, DialectOpenAI)
	}), '}')
}

func appendList(dst []byte, models []ModelInfo, element func([]byte, *ModelInfo) []byte) []byte {
	dst = append(dst, '[')
	for i := range models {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = element(dst, &models[i])
	}
	return append(dst, ']')
}

// appendTag appends a model of Ollama's list. Its files are at the engines, so their size is 0, and the digest is that of the model's name: clients tell
// models apart by it.
func appendTag(dst []byte, m *ModelInfo) []byte {
	dst = appendString(append(dst, `{"name":`...), m.ID)
	dst = appendString(append(dst, `,"model":`...), m.ID)
	dst = appendTime(append(dst, `,"modified_at":`...), m.Created)
	digest := sha256.Sum256([]byte(m.name()))
	dst = hex.AppendEncode(append(dst, `,"size":0,"digest":"`...), digest[:])
	return append(appendDetails(append(dst, `","details":`...), m), '}')
}

// ollamaVersion is the version of Ollama's API that clients get, which look at it before they use what is newer.
const ollamaVersion = "0.12.6"

// AppendOllamaVersion appends the answer to GET /api/version. It says that it is not Ollama's, since who looks for engines tells Ollama by this path.
func AppendOllamaVersion(dst []byte) []byte {
	return append(dst, `{"version":"`+ollamaVersion+`","gateway":"colonnade"}`...)
}

// AppendRunning appends the answer to GET /api/ps: the models that engines have loaded. Ollama's command shows a time that has passed as the end of the
// model, so theirs is far ahead (https://github.com/ollama/ollama/blob/main/cmd/cmd.go).
func AppendRunning(dst []byte, models []ModelInfo) []byte {
	return append(appendList(append(dst, `{"models":`...), models, func(dst []byte, m *ModelInfo) []byte {
		dst = appendTag(dst, m)
		dst = append(dst[:len(dst)-1], `,"expires_at":"2300-01-01T00:00:00Z","size_vram":0,"context_length":`...)
		return append(strconv.AppendInt(dst, int64(m.MaxModelLen), 10), '}')
	}), '}')
}

// name returns the model's own name.
func (m *ModelInfo) name() string {
	if m.AliasOf != "" {
		return m.AliasOf
	}
	return m.ID
}

func appendDetails(dst []byte, m *ModelInfo) []byte {
	dst = appendString(append(dst, `{"parent_model":`...), m.AliasOf)
	return append(dst, `,"format":"","family":"","families":[],"parameter_size":"","quantization_level":""}`...)
}

// AppendShownModel appends the answer to POST /api/show. Clients read from it what the model can do, and the length of its context below the name of
// an architecture.
func AppendShownModel(dst []byte, m *ModelInfo) []byte {
	dst = appendDetails(append(dst, `{"modelfile":"","parameters":"","template":"","details":`...), m)
	dst = appendString(append(dst, `,"model_info":{"general.architecture":"colonnade","general.basename":`...), m.name())
	if m.MaxModelLen > 0 {
		dst = strconv.AppendInt(append(dst, `,"colonnade.context_length":`...), int64(m.MaxModelLen), 10)
	}
	dst = append(append(dst, `},"capabilities":`...), m.capabilities()...)
	return append(appendTime(append(dst, `,"modified_at":`...), m.Created), '}')
}

// capabilities returns what models of the type do, in Ollama's words. Whether an engine's template has tools is not known here.
func (m *ModelInfo) capabilities() string {
	switch m.Type {
	case "chat", "generic":
		return `["completion","tools"]`
	case "completion":
		return `["completion"]`
	case "embedding":
		return `["embedding"]`
	}
	return `[]`
}

func appendTime(dst []byte, t time.Time) []byte {
	return append(t.UTC().AppendFormat(append(dst, '"'), time.RFC3339), '"')
}

// ShownModel returns the name of the model that a body of POST /api/show asks for.
func ShownModel(body []byte) (name string, err *Error) {
	s := scan{b: body}
	older := ""
	for key, more := s.firstMember(); more; key, more = s.nextMember() {
		switch string(key) {
		case "model":
			name = string(s.text())
		case "name": // before Ollama 0.1.40
			older = string(s.text())
		default:
			s.skip()
		}
	}
	if name == "" {
		name = older
	}
	switch {
	case !s.end():
		return "", InvalidRequest("", "the body is no JSON object")
	case name == "":
		return "", InvalidRequest("model", "\"model\" is missing: name the model to show")
	}
	return name, checkModel([]byte(name))
}
