package refusals_test

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// rateLimited starts a fleet of two colos with one account.
func rateLimited(t *testing.T, account, more string) (f *fleettest.Fleet, line string) {
	t.Helper()
	documents, authorization := fleettest.AccountWithKey("limited", account)
	engine := simengine.Config{Slots: 4, TTFT: time.Millisecond}
	return fleettest.Start(t, onebox.Config{Colos: []string{"ams", "fra"}, Engine: engine}, documents+more), "Authorization: " + authorization
}

// wantLimited checks the refusal of a request beyond a limit: at once, by the entry, with an honest time to come back.
func wantLimited(t *testing.T, a wiretest.Response, reason string, most time.Duration) {
	t.Helper()
	e := a.APIError(t)
	if a.Status != 429 || e.Code != "rate_limit_exceeded" || e.Type != "rate_limit_error" || e.Reason != reason {
		t.Errorf("refused with %d %+v, want %s", a.Status, e, reason)
	}
	if e.RetryAfterMS < 1 || time.Duration(e.RetryAfterMS)*time.Millisecond > most ||
		a.Header.Get("retry-after") != strconv.Itoa(int(math.Ceil(float64(e.RetryAfterMS)/1000))) || a.Header.Get("x-should-retry") != "" {
		t.Errorf("retry after %d ms, want at most %v: %v", e.RetryAfterMS, most, a.Header)
	}
	if a.Header.Get("x-colonnade-attempts") != "0" || a.Header.Get("x-colonnade-colo") != "" {
		t.Errorf("a colo was asked: %v", a.Header)
	}
}

func remaining(h http.Header, what string) string { return h.Get("x-ratelimit-remaining-" + what) }

// An account gets its requests a minute, each counted once, with the headers of OpenAI; the next gets a 429, and other accounts do not
// notice. A request that is not valid, and a list of models, take nothing.
func TestRequestsPerMinute(t *testing.T) {
	t.Parallel()
	otherDocument, other := fleettest.AccountWithKey("other", "")
	f, line := rateLimited(t, "limits: {requests_per_minute: 3}", otherDocument)
	if a := f.RawChat(`{"model":"no-such-model"}`, line); a.Status != 404 || remaining(a.Header, "requests") != "" {
		t.Errorf("a model that does not exist: %d %v", a.Status, a.Header)
	}
	began, granted := time.Now(), 0
	flowedIn := func() int { return int(time.Since(began) / (20 * time.Second)) } // the most, on a machine that is slow
	refused := func(headers ...string) wiretest.Response {
		t.Helper()
		for range 100 {
			a := f.RawChat(fleettest.ChatBody(2, true), append(headers, line)...)
			if a.Status != 200 {
				return a
			}
			granted++
		}
		t.Fatal("100 requests were granted")
		return wiretest.Response{}
	}
	for n, body := range []string{fleettest.ChatBody(2, false), fleettest.ChatBody(2, true), fleettest.ChatBody(2, false)} {
		a := f.RawChat(body, line)
		granted++
		left, err := strconv.Atoi(remaining(a.Header, "requests"))
		if a.Status != 200 || a.Header.Get("x-ratelimit-limit-requests") != "3" || err != nil || left < 2-n || left > 2-n+flowedIn() ||
			a.Header.Get("x-ratelimit-limit-tokens") != "" {
			t.Errorf("request %d: %d %v", n, a.Status, a.Header)
		}
		if reset, err := time.ParseDuration(a.Header.Get("x-ratelimit-reset-requests")); err != nil || reset <= 0 || reset > time.Minute {
			t.Errorf("request %d: reset %v, %v", n, reset, err)
		}
	}
	a := refused()
	wantLimited(t, a, "request_limit", 20*time.Second)
	if remaining(a.Header, "requests") != "0" || !strings.Contains(a.Body, `the account \"limited\" has a limit of 3 requests a minute`) {
		t.Errorf("refused with %v, %s", a.Header, a.Body)
	}
	wantLimited(t, refused("x-colonnade-queue-events: 1"), "request_limit", 20*time.Second)
	if n := int(f.EngineRequests()); n != granted || granted > 3+flowedIn() {
		t.Errorf("engines got %d requests, and %d were granted", n, granted)
	}
	if a := f.RawChat(fleettest.ChatBody(2, false), "Authorization: "+other); a.Status != 200 || remaining(a.Header, "requests") != "" {
		t.Errorf("an account without limits: %d %v", a.Status, a.Header)
	}
}

// Tokens are taken by an estimate first, and by what the engine has reported at the end, also where the client has not asked a stream for
// usage, which it does not see either.
func TestTokensPerMinute(t *testing.T) {
	t.Parallel()
	f, line := rateLimited(t, "limits: {tokens_per_minute: 100000}", "")
	for _, stream := range []bool{false, true} { // each takes 9000 at first and uses less than 200
		if a := f.RawChat(fleettest.ChatBody(9000, stream), line); a.Status != 200 || strings.Contains(a.Body, `"usage"`) == stream {
			t.Fatalf("stream %v: %d %.2000s", stream, a.Status, a.Body)
		}
	}
	h := f.RawChat(fleettest.ChatBody(9000, false), line).Header
	if n, err := strconv.Atoi(remaining(h, "tokens")); err != nil || n > 100_000-9000 || n < 100_000-9000-600 || h.Get("x-ratelimit-limit-tokens") != "100000" {
		t.Errorf("headers beside a request of 9000 tokens: %v", h)
	}
}

// A request that needs more tokens than are left gets a 429, and one that is small enough does not.
func TestTokenLimitRefuses(t *testing.T) {
	t.Parallel()
	f, line := rateLimited(t, "limits: {tokens_per_minute: 1000}", "")
	wait := f.BeginChat(fleettest.ChatBody(800, true), line)
	testkit.WaitFor(t, "the request to run", func() bool { return f.EngineRequests() == 1 })
	wantLimited(t, f.RawChat(fleettest.ChatBody(800, false), line), "token_limit", time.Minute)
	if a := f.RawChat(fleettest.ChatBody(2, false), line); a.Status != 200 {
		t.Errorf("a small request: %d %s", a.Status, a.Body)
	}
	wait.Close()
}

// The limits of a key hold beside those of its account, and those of the fleet for all; a budget that is spent is another error.
func TestLimitsOfKeyFleetAndBudget(t *testing.T) {
	t.Parallel()
	f := func(account, key, more string, stream bool, allowed int, message string) {
		t.Helper()
		documents, authorization := fleettest.AccountWithKey("limited", account)
		fl := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(4)), documents+key+"---\n"+more)
		for range allowed {
			if a := fl.RawChat(fleettest.ChatBody(2, stream), "Authorization: "+authorization); a.Status != 200 {
				t.Errorf("%s: %d %s", message, a.Status, a.Body)
			}
		}
		a := fl.RawChat(fleettest.ChatBody(2, false), "Authorization: "+authorization)
		if a.Status != 429 || !strings.Contains(a.Body, message) {
			t.Errorf("got %d %s, want %s", a.Status, a.Body, message)
		}
		if e := a.APIError(t); e.Reason == "budget_spent" && (e.Code != "insufficient_quota" || e.Type != "insufficient_quota" || a.Header.Get("x-should-retry") != "false") {
			t.Errorf("got %+v, %v", e, a.Header)
		}
	}
	const priced = "key: models/demo-chat\npool: demo\ncost: {unit: usd, input: 1, output: 0, per: 1}\n"
	f("", "limits: {requests_per_minute: 2}\n", "", false, 2, "this API key has a limit of 2 requests a minute")
	f("", "", "key: limits\nrequests_per_minute: 2\n", false, 2, "all clients together have a limit of 2 requests a minute")
	f("limits: {budget: {month: 0.5}}", "", priced, false, 1, "has a budget of 0.5 for the month, which is spent; the next month begins at 20")
	f("limits: {budget: {unit: usd, day: 0.5}}", "", priced, true, 1, "has a budget of 0.5 usd for the day")
}
