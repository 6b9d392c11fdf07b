package openai_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"colonnade/openai"
)

// Bodies that random bytes rarely produce: nearly all of valid grammar, and about the fields that matter.
func TestPeekAndSpliceGenerated(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	for range 12_000 {
		body := []byte(generateObject(r, 0))
		if r.IntN(8) == 0 {
			body[r.IntN(len(body))] = "{}[],:\"\\ \x00\xff0a"[r.IntN(13)]
		}
		checkPeek(t, body)
		checkSplice(t, body)
		if _, err := openai.Peek(openai.Chat, jsonType, body); err == nil {
			accepted++
		}
	}
	if accepted < 1200 {
		t.Errorf("only %d were accepted", accepted)
	}
}

func generateObject(r *rand.Rand, depth int) string {
	keys := []string{"model", "stream", "stream_options", "include_usage", "max_tokens", "x", "messages", `\u0073tream`, "background", "", "é",
		"n", "prompt", "priority", "chat_template_kwargs", "Model", "ſtream", `mod\u0065l`, `include_us\u0061ge`, "Stream_options"}
	common := len(keys) - 5*r.IntN(2) - r.IntN(3)
	space := func() string { return []string{"", "", "", " ", "\n\t", "\r"}[r.IntN(6)] }
	var members []string
	for range r.IntN(6) {
		key := keys[r.IntN(common)]
		members = append(members, space()+`"`+key+`"`+space()+":"+space()+generateValue(r, key, depth+1)+space())
	}
	if depth == 0 && r.IntN(3) > 0 {
		members = append(members, `"model":"m"`)
		members = slices.DeleteFunc(members[:len(members)-1], func(m string) bool { return strings.Contains(m, "mod") })
		members = append(members, `"model":"m"`)
		r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	}
	return "{" + strings.Join(members, ",") + space() + "}"
}

func generateValue(r *rand.Rand, key string, depth int) string {
	likely := map[string][]string{"model": {`"m"`, `"a\/b"`, `"\ud83d\ude00"`, `""`}, "stream": {"true", "true", "false", "null"},
		"stream_options": {"null", "{}", "{ }"}, "include_usage": {"true", "false", "null"}, "max_tokens": {"5", "0", "7e2", "-3"},
		"n": {"1", "5", "5", "1e1", "null"}}
	if values := likely[key]; values != nil && r.IntN(4) > 0 {
		return values[r.IntN(len(values))]
	}
	if depth > 4 {
		return "1"
	}
	switch r.IntN(6) {
	case 0, 1:
		return generateObject(r, depth)
	case 2:
		return "[" + generateValue(r, "", depth+1) + ", " + generateValue(r, "", depth+1) + "]"
	case 3:
		return []string{"1", "-0.5", "1E+7", "true", "false", "null", "[]"}[r.IntN(7)]
	}
	return []string{`"m"`, `"\ud800"`, `"long text without an end, nearly"`, `"\\\""`, `"grüße\n日本"`, `"\u0000"`}[r.IntN(6)]
}
