package openai

import (
	"slices"
	"strings"

	"colonnade/internal/ascii"
)

// maxEngineWords bounds what a log has of an engine's answer, in bytes.
const maxEngineWords = 300

// omitted stands for what an engine said and a log must not have.
const omitted = "…"

// EngineWords returns what an engine says in the body of an error, for a log: its message in one line of at most 300 bytes. An engine
// may repeat a prompt, a key or an address in its message, so only words that engines use for errors remain, and the texts in keep,
// such as the model's name; an ellipsis stands for all else. It returns "" for a body without a message.
func EngineWords(body []byte, keep ...string) string {
	said := readEngineError(body[:min(len(body), 64<<10)])
	if said.plain && strings.HasPrefix(strings.TrimSpace(said.message), "<") {
		return "a web page"
	}
	text := said.message[:min(len(said.message), 4*maxEngineWords)]
	var out strings.Builder
	for len(text) > 0 && out.Len() < maxEngineWords {
		n := wordAt(text, keep)
		switch word := text[:n]; {
		case n == 1 && isGap(text[0]):
			appendGap(&out, text[0])
		case slices.Contains(keep, word) || isErrorWord(word):
			out.WriteString(word)
		default:
			out.WriteString(omitted)
		}
		text = text[n:]
	}
	return strings.TrimSpace(truncate(joinOmitted(out.String()), maxEngineWords))
}

// joinOmitted makes one ellipsis of several that have nothing but a gap between them.
func joinOmitted(text string) string {
	for i := 0; i+2*len(omitted) < len(text); {
		rest := text[i+len(omitted):]
		switch {
		case strings.HasPrefix(text[i:], omitted) && isGap(rest[0]) && strings.HasPrefix(rest[1:], omitted):
			text = text[:i] + rest[1:]
		default:
			i++
		}
	}
	return text
}

// wordAt returns the length of the word at the beginning of text: one of keep, or a run without gaps, or a single gap.
func wordAt(text string, keep []string) int {
	longest := 0
	for _, k := range keep {
		if len(k) > longest && strings.HasPrefix(text, k) && !(len(text) > len(k) && ascii.IsAlphanumeric(text[len(k)])) {
			longest = len(k)
		}
	}
	if longest > 0 {
		return longest
	}
	n := 0
	for n < len(text) && !isGap(text[n]) {
		n++
	}
	return max(n, 1)
}

// isGap reports whether a byte stands between two words. Bytes of keys and addresses do not: a key must be omitted as a whole.
func isGap(c byte) bool { return c <= ' ' || strings.IndexByte(`"'.,;:!?()[]{}<>`+"`", c) >= 0 }

// appendGap writes what stands between two words; white space of any kind becomes one space.
func appendGap(out *strings.Builder, c byte) {
	last := byte(' ')
	if s := out.String(); s != "" {
		last = s[len(s)-1]
	}
	switch {
	case c > ' ' && c != last:
		out.WriteByte(c)
	case c <= ' ' && last != ' ':
		out.WriteByte(' ')
	}
}

// isErrorWord reports whether engines use a word for errors, whatever a request contains.
func isErrorWord(word string) bool {
	if len(word) > 20 {
		return false
	}
	return strings.Contains(errorWords, " "+strings.ToLower(word)+" ")
}

const errorWords = "" +
	" a access adapter adapters allowed already an and api are argument arguments array as at authentication authorization" +
	" bad batch be been before body but by cache call can cannot capacity chat chunk client closed completion completions" +
	" connection content context could credential credentials cuda current data dead decode denied deny detail device did" +
	" disabled do document documents does doesn't done due embedding embeddings empty enabled endpoint engine engines error" +
	" errors exceed exceeded exceeds exception exist exists expected expired failed failure fatal field file first for" +
	" forbidden format found free from full function generate generation gpu had has have header http https id image" +
	" implemented in incorrect index initialized input inputs instead internal invalid invalid_api_key is it its json key kv" +
	" large length less limit limited list load loaded loading long longer lora many max maximum may mb memory message" +
	" messages method mismatch missing mode model model_not_found models more most multiple must name need needs no node none not" +
	" number object of on only operation or out overloaded page parameter parameters path payload permission permitted" +
	" pooling process processing prompt prompts provide provided pulling quota range rank rate reached read reason refused" +
	" registered reject rejected request requested requests require required requires resource resources response retry role" +
	" route running schema select serve served server serves service session shape short should shut slot slots small start" +
	" started state stop stream string support supported supports system task temperature template temporarily tensor text" +
	" than that the there this time timeout to token tokenizer tokens too tool tools train try trying type type_error unable" +
	" unauthenticated unauthorized unavailable unexpected unknown unsupported up upload url use used user using valid" +
	" validation value values variable was weights were when while with within without worker wrong yet you your "
