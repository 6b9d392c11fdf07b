package onebox_test

import (
	"strings"
	"testing"

	"colonnade/onebox"
)

func TestPlainAndStreamed(t *testing.T) {
	f := startFleet(t, onebox.Config{Engine: quick(4)}, "")
	f.watch(8)
	a := f.chat(chatBody(5, false))
	if a.Status != 200 || !strings.Contains(a.Body, `"completion_tokens":5`) {
		t.Errorf("plain: %d %q", a.Status, a.Body)
	}
	if a.Header.Get("x-colonnade-colo") != "ams" || a.Header.Get("x-colonnade-attempts") != "1" || a.Header.Get("x-request-id") == "" {
		t.Errorf("headers: %v", a.Header)
	}
	a = f.chat(chatBody(5, true))
	if a.Status != 200 || !strings.HasSuffix(a.Body, "data: [DONE]\n\n") || strings.Contains(a.Body, `"usage":{`) {
		t.Errorf("streamed: %d %q", a.Status, a.Body)
	}
}
