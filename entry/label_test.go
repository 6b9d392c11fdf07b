package entry

import (
	"strings"
	"testing"
)

func TestModelLabel(t *testing.T) {
	f := func(asked, want string) {
		t.Helper()
		if got := modelLabel(asked); got != want {
			t.Errorf("%q: %q, want %q", asked, got, want)
		}
	}
	for _, name := range []string{
		"gpt-4o", "meta-llama/Llama-3.1-8B-Instruct", "llama3.1:8b-instruct-q4_K_M", "org/model@rev+adapter", "text-embedding-3-large",
		"desk-model", "mixtral_8x7b_instruct", "a", strings.Repeat("word-", 25) + "abc", "Qwen/Qwen2.5-Coder-32B-Instruct-AWQ",
		"averyverylongnamewithoutanydigits",
	} {
		f(name, name)
	}
	for _, other := range []string{
		"", "cn_test_0123456789abcdefghij", "sk-proj-abc", "SK-ANT-abc", "Bearer sk-abc", "x/sk-abc", "sk_live_1", "hf_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789",
		"AIzaSyA1234567890abcdefghijklmnopqrstuvw", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abc", "what is love?", "tell me a secret", "schön", "a\nb",
		strings.Repeat("a", 129), "-x", "0123456789abcdef0123456789abcdef",
	} {
		f(other, "")
	}
}

func TestIsRequestID(t *testing.T) {
	for _, id := range []string{"req-0001", "task-12345", "0123456789abcdef0123456789abcdef", "a.b_c-d.e", "risk_1234"} {
		if !isRequestID(id) {
			t.Errorf("%q is not kept", id)
		}
	}
	for _, id := range []string{"", "short", "sk-proj-123456", "cn_test_0123456789abcdefghij", "CN_test_0123456789", "my.sk-1234567", "with space", strings.Repeat("x", 65)} {
		if isRequestID(id) {
			t.Errorf("%q is kept", id)
		}
	}
}
