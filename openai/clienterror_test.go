package openai_test

import (
	"strings"
	"testing"

	"colonnade/openai"
)

// The error has the engine's own words, if there are any.
func TestParseClientError(t *testing.T) {
	f := func(body, message, kind, param, code string) {
		t.Helper()
		e := openai.ParseClientError(422, []byte(body))
		if e.Status != 422 || e.Message != message || e.Type != kind || e.Param != param || e.Code != code {
			t.Errorf("%.100q: %+v", body, e)
		}
		decodeError(t, e.AppendJSON(nil, "r"))
	}
	const ours, invalid, code = "the inference engine refused the request", "invalid_request_error", "invalid_request"
	f(`{"error": {"message":"too \"long\"","type":"BadRequestError","param":"messages","code":"context_length_exceeded"}}`,
		`too "long"`, "BadRequestError", "messages", "context_length_exceeded")
	f(`{"object":"x","error":{"message":"m","type":null,"param":null,"code":400}}`, "m", invalid, "", code)
	f(`{"error":{"message":""}}`, ours, invalid, "", code)
	f(`{"error":"too long"}`, "too long", invalid, "", code)
	f(`{"error":"too long","error_type":"validation"}`, "too long", invalid, "", code)
	for _, body := range []string{``, `x`, `[]`, `{"error":""}`, `{"error":7}`, `{"error":"x"`, `{"error":{"message":"m"`, `{"error":{"message":"m"}} x`} {
		f(body, ours, invalid, "", code)
	}
	if e := openai.ParseClientError(400, []byte(`{"error":{"message":"`+strings.Repeat("ü", 5000)+`"}}`)); len(e.Message) != 2<<10 {
		t.Errorf("a message of %d bytes", len(e.Message))
	}
}
