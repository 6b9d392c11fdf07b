package proctest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// Outcome is what became of a request.
type Outcome string

// All outcomes but Dishonest are honest.
const (
	Complete  Outcome = "complete"  // with all tokens and its proper end
	Refused   Outcome = "refused"   // by an error with a reason, and with Retry-After where a retry can help
	Cut       Outcome = "cut"       // a stream with an error event at its end, whose connection was closed without the last chunk
	Left      Outcome = "left"      // the client has left
	Lost      Outcome = "lost"      // the connection to the entry has ended without an answer
	Dishonest Outcome = "dishonest" // anything else
)

// Result is what became of one request.
type Result struct {
	ID           string
	Kind         Kind
	Entry        string
	Pool         string
	Began, Ended time.Time
	Status       int
	Outcome      Outcome
	Detail       string // the reason of a refusal or of a cut; otherwise what was wrong

	tokens int
}

func (r Result) String() string {
	return fmt.Sprintf("%s by %s, from %s for %v: %s %d %s", r.ID, r.Entry, r.Began.Format("15:04:05.000"),
		r.Ended.Sub(r.Began).Round(time.Millisecond), r.Outcome, r.Status, r.Detail)
}

// classify reads an answer to its end and sets the outcome.
func (r *Result) classify(answer *http.Response, err error) {
	if err != nil {
		r.Outcome, r.Detail = Lost, err.Error()
		return
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	r.Status = answer.StatusCode
	switch {
	case r.Status != http.StatusOK:
		r.classifyError(answer.Header, string(text), err)
	case r.Kind.isPlain():
		r.classifyPlain(text, err)
	default:
		r.classifyStream(string(text), err)
	}
}

func (r *Result) classifyError(header http.Header, text string, err error) {
	var body struct {
		Error struct{ Reason, Message string }
	}
	switch {
	case err != nil:
		r.Outcome, r.Detail = Lost, err.Error()
	case json.Unmarshal([]byte(text), &body) != nil || body.Error.Reason == "" || body.Error.Reason != header.Get("X-Colonnade-Reason"):
		r.Outcome, r.Detail = Dishonest, "an error without a reason: "+text
	case r.Status == http.StatusTooManyRequests && header.Get("Retry-After") == "":
		r.Outcome, r.Detail = Dishonest, "429 without Retry-After: "+text
	default:
		r.Outcome, r.Detail = Refused, body.Error.Reason+": "+body.Error.Message
	}
}

func (r *Result) classifyPlain(text []byte, err error) {
	var body struct {
		Usage struct {
			Tokens int `json:"completion_tokens"`
		} `json:"usage"`
	}
	switch {
	case err != nil:
		r.Outcome, r.Detail = Lost, err.Error()
	case json.Unmarshal(text, &body) != nil || body.Usage.Tokens != r.tokens:
		r.Outcome, r.Detail = Dishonest, fmt.Sprintf("no complete answer of %d tokens: %s", r.tokens, text)
	default:
		r.Outcome = Complete
	}
}

func (r *Result) classifyStream(text string, err error) {
	const errorEvent = `data: {"error":`
	done := strings.HasSuffix(text, "data: [DONE]\n\n")
	tokens := strings.Count(text, `"content":"`)
	_, failure, failed := strings.Cut(text, errorEvent)
	switch {
	case err == nil && done && !failed && tokens >= r.tokens:
		r.Outcome = Complete
	case err != nil && failed && !done:
		r.Outcome, r.Detail = Cut, failure
	case err != nil && !failed || errors.Is(err, context.Canceled): // perhaps behind the last event, and before the end of the body
		r.Outcome, r.Detail = Lost, err.Error()
	default:
		r.Outcome, r.Detail = Dishonest, fmt.Sprintf("%v, %d of %d tokens, ends with %q", err, tokens, r.tokens, text[max(0, len(text)-300):])
	}
}

// Results are those of a load.
type Results []Result

// Check fails the test with each request whose outcome is not among the allowed ones, and logs how many have which. Complete, and
// Left for a client that leaves, are always allowed.
func (all Results) Check(t testing.TB, allowed ...Outcome) {
	t.Helper()
	allowed = append(allowed, Complete)
	counts, wrong := map[string]int{}, 0
	for _, r := range all {
		counts[r.summary()]++
		if counts[r.summary()] == 1 && r.Outcome == Refused {
			t.Logf("the first of its kind: %v", r)
		}
		if slices.Contains(allowed, r.Outcome) || r.Kind == Cancelled && r.Outcome == Left {
			continue
		}
		if wrong++; wrong <= 10 {
			t.Error(r)
		}
	}
	if wrong > 10 {
		t.Errorf("… and %d further requests", wrong-10)
	}
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		lines = append(lines, fmt.Sprintf("%s %d", key, counts[key]))
	}
	t.Logf("%d requests: %s", len(all), strings.Join(lines, ", "))
}

// summary returns the kind and the outcome, with the reason of a refusal.
func (r Result) summary() string {
	text := fmt.Sprintf("%s %s", r.Kind, r.Outcome)
	if reason, _, ok := strings.Cut(r.Detail, ":"); ok && r.Outcome == Refused {
		text += fmt.Sprintf(" (%d %s)", r.Status, reason)
	}
	return text
}

// Count counts the requests with an outcome.
func (all Results) Count(o Outcome) (n int) {
	for _, r := range all {
		if r.Outcome == o {
			n++
		}
	}
	return n
}
