package simengine_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"colonnade/internal/simengine"
)

// caching configures an engine with a prefix cache that takes no time.
func caching(blocks int) simengine.Config {
	c := fast()
	c.CacheBlocks, c.BlockTokens, c.Slots, c.Tokens = blocks, 4, 1, 8
	return c
}

// say returns a chat request of messages.
func say(messages ...string) string {
	var b strings.Builder
	for i, m := range messages {
		fmt.Fprintf(&b, `,{"role":%q,"content":%q}`, []string{"user", "assistant"}[i%2], m)
	}
	return `{"model":"m","messages":[` + b.String()[1:] + `]}`
}

// cachedOf returns the tokens of an answer's prompt that were cached.
func cachedOf(t *testing.T, addr, body string) (cached int, said string) {
	t.Helper()
	a := answerOf(t, addr, "/v1/chat/completions", body)
	n, _ := dig(a, "usage", "prompt_tokens_details", "cached_tokens").(float64)
	said, _ = dig(a, "choices", 0, "message", "content").(string)
	return int(n), said
}

func TestPrefixCacheOfConversation(t *testing.T) {
	e, addr := start(t, caching(100))
	first := "one two three four five six"
	_, said := cachedOf(t, addr, say(first))
	if cached, _ := cachedOf(t, addr, say(first, said, "seven eight")); cached != 12 {
		t.Errorf("second turn: %d tokens cached, want 12 of 14", cached)
	}
	if cached, _ := cachedOf(t, addr, say("another prompt of some words")); cached != 0 {
		t.Errorf("other prompt: %d tokens cached, want 0", cached)
	}
	e.ClearCache()
	if cached, _ := cachedOf(t, addr, say(first)); cached != 0 {
		t.Errorf("after ClearCache: %d tokens cached, want 0", cached)
	}
}

func TestPrefixCacheOfStream(t *testing.T) {
	_, addr := start(t, caching(100))
	body := strings.Replace(say("one two three four five"), `{`, `{"stream":true,"stream_options":{"include_usage":true},`, 1)
	readAll(t, post(t, addr, "/v1/chat/completions", body))
	if s := readAll(t, post(t, addr, "/v1/chat/completions", body)); !strings.Contains(s, `"cached_tokens":4`) {
		t.Errorf("no 4 cached tokens in %q", s)
	}
}

func TestPrefixCacheIsBounded(t *testing.T) {
	_, addr := start(t, caching(4))
	first := "one two three four five"
	for _, prompt := range []string{first, "a b c d e f g h i"} {
		cachedOf(t, addr, say(prompt))
	}
	if cached, _ := cachedOf(t, addr, say(first)); cached != 0 {
		t.Errorf("evicted prompt: %d tokens cached, want 0", cached)
	}
}

func TestPrefixCacheMetrics(t *testing.T) {
	for kind, lines := range map[string][]string{
		"vllm": {`vllm:prefix_cache_queries_total{model_name="m"} 10`, `vllm:prefix_cache_hits_total{model_name="m"} 4`,
			`block_size="4",cache_dtype="auto",enable_prefix_caching="True",num_gpu_blocks="100"} 1`, `vllm:kv_cache_usage_perc{model_name="m"} 0`},
		"sglang": {`sglang:cached_tokens_total{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 4`,
			`sglang:max_total_num_tokens{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 400`},
	} {
		c := caching(100)
		c.Kind, c.Models = kind, []string{"m"}
		_, addr := start(t, c)
		for range 2 {
			cachedOf(t, addr, say("one two three four five"))
		}
		resp, err := http.Get("http://" + addr + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		page, _ := io.ReadAll(resp.Body)
		for _, line := range lines {
			if !strings.Contains(string(page), line+"\n") {
				t.Errorf("%s: no %q in\n%s", kind, line, page)
			}
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestPrefill holds an answer's times against those that its prompt needs at least.
func TestPrefill(t *testing.T) {
	c := caching(100)
	c.Prefill = 5 * time.Millisecond
	_, addr := start(t, c)
	took := func() time.Duration {
		began := time.Now()
		cachedOf(t, addr, say("one two three four five six seven eight nine"))
		return time.Since(began)
	}
	if d := took(); d < 45*time.Millisecond {
		t.Errorf("nine tokens computed in %v, want at least 45ms", d)
	}
	if d := took(); d < 5*time.Millisecond {
		t.Errorf("one token computed in %v, want at least 5ms", d)
	}
}
