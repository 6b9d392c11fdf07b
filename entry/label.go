package entry

import (
	"strings"

	"colonnade/internal/ascii"
)

const (
	maxLabel = 128 // of a model's name
	keyRun   = 20  // letters and digits in a row: words of names are shorter, and most keys are longer
)

// modelLabel returns what an event shows of a model that does not exist: the name as the client wrote it, if it could be a model's name.
// Clients paste keys and prompts there by mistake, so anything that may be one is left out.
func modelLabel(asked string) string {
	if len(asked) > maxLabel || asked == "" || !ascii.IsAlphanumeric(asked[0]) || isKeyLike(asked) {
		return ""
	}
	run, digit := 0, false
	for i := range len(asked) {
		switch c := asked[i]; {
		case ascii.IsAlphanumeric(c):
			run++
			digit = digit || c <= '9'
		case strings.IndexByte("._:/@+-", c) >= 0:
			run, digit = 0, false
		default:
			return ""
		}
		if run >= keyRun && digit {
			return ""
		}
	}
	return asked
}

// isKeyLike reports whether a word in s begins as API keys do: ours, and those of OpenAI and many others.
func isKeyLike(s string) bool {
	s = strings.ToLower(s)
	for _, prefix := range [...]string{"cn_", "sk-", "sk_"} {
		for at := 0; ; at++ {
			i := strings.Index(s[at:], prefix)
			if i < 0 {
				break
			}
			if at += i; at == 0 || !ascii.IsAlphanumeric(s[at-1]) {
				return true
			}
		}
	}
	return false
}

// isRequestID reports whether a client's id may be kept as a label.
func isRequestID(s string) bool {
	if len(s) < 8 || len(s) > 64 || isKeyLike(s) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !ascii.IsAlphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
