package trust_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

// keyPlace is where a client sends its key: the name of a header, and what stands before the key.
type keyPlace struct{ name, before string }

var keyPlaces = []keyPlace{{"Authorization", "Bearer "}, {"Api-Key", ""}, {"X-Api-Key", ""}, {"Sec-WebSocket-Protocol", "realtime, openai-insecure-api-key."}}

func (p keyPlace) ofSession() bool { return p.name == "Sec-WebSocket-Protocol" }

// An API key and a token of an issuer are known in each header in which clients send keys, for every request. Two that differ are refused, whatever
// they are worth and also in an open fleet, where a request without a key would belong to another account. No engine gets one.
func TestKeyHeaders(t *testing.T) {
	t.Parallel()
	key, documents := fleettest.NewAccountKey(t, "acme", "weight: 2")
	other, otherDocuments := fleettest.NewAccountKey(t, "other", "weight: 1")
	issuerKey := newSigner(t, "first")
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, issuerKey.keySet(t)) }))
	defer issuer.Close()
	documents += otherDocuments + fmt.Sprintf("key: issuers/login\nissuer: %s\njwks: %[1]s/keys\naudience: colonnade\n---\nkey: accounts/open\nmodels: []\n", issuer.URL)
	token := issuerKey.token(t, issuer.URL, "acme", "", time.Hour)
	for _, open := range []bool{false, true} {
		f := fleettest.StartClosed(t, onebox.Config{Engine: recording(4), Colos: []string{"ams"}, Open: open}, documents)
		f.Key = key
		f.WatchShared(8)
		testkit.WaitFor(t, "a token to be served", func() bool {
			return f.RawChat(fleettest.ChatBody(1, false), "Authorization: Bearer "+token).Status == http.StatusOK
		})
		for _, sent := range []string{key, token} {
			for _, place := range keyPlaces {
				askAll(f, 200, place.name, place.before+sent)
				for _, second := range keyPlaces {
					if second != place && !(place.ofSession() && second.ofSession()) {
						askAll(f, 200, place.name, place.before+sent, second.name, second.before+sent)
						for _, differs := range []string{other, "wrong", sent + "x"} {
							askAll(f, 401, place.name, place.before+sent, second.name, second.before+differs)
						}
					}
				}
			}
		}
		askAll(f, 200, "Authorization", "Bearer "+key, "Api-Key", "", "X-Api-Key", " "+key+" ")
		askAll(f, 200, "Authorization", "Basic Zm9vOmJhcg==", "X-Api-Key", key) // of a proxy in front
		askAll(f, 401, "Authorization", "Bearer wrong", "Api-Key", "wrong2")
		for _, e := range f.Engines {
			for _, r := range e.Simulated.Received() {
				if text := fmt.Sprint(r.Header); strings.Contains(text, key) || strings.Contains(text, token) {
					t.Errorf("an engine got a key: %v", r.Header)
				}
			}
		}
	}
}

// askAll asks for a chat, the models and a session with headers, names and values in turn, and expects a status.
func askAll(f *fleettest.Fleet, status int, headers ...string) {
	f.T.Helper()
	var lines []string
	session := false
	for i := 0; i < len(headers); i += 2 {
		lines = append(lines, headers[i]+": "+headers[i+1])
		session = session || headers[i] == "Sec-WebSocket-Protocol"
	}
	if status == http.StatusOK {
		s := f.DialRealtime("demo-realtime", headers...)
		s.Hear("session.created")
		s.HangUp(1000, "")
	} else if e := f.ExpectRefused("demo-realtime", status, headers...); !isTwoKeys(f, e.Body) {
		f.T.Errorf("a session with %.60q: %s", lines, e.Body)
	}
	if session {
		return // other requests have no subprotocols
	}
	a := f.RawChat(fleettest.ChatBody(1, false), lines...)
	if a.Status != status || status == 401 && (!isTwoKeys(f, a.Body) || a.Header.Get("WWW-Authenticate") != "Bearer") {
		f.T.Errorf("%.60q: %d %s, want %d", lines, a.Status, a.Body, status)
	}
	r, err := http.NewRequest(http.MethodGet, f.URL()+"/models", nil)
	if err != nil {
		f.T.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := f.Client.Do(r)
	if err != nil {
		f.T.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != status {
		f.T.Errorf("the models with %.60q: %d, want %d", lines, answer.StatusCode, status)
	}
}

// isTwoKeys reports whether an error is that of two keys that differ, and repeats none.
func isTwoKeys(f *fleettest.Fleet, body string) bool {
	return strings.Contains(body, `"invalid_api_key"`) && strings.Contains(body, "differ") && !strings.Contains(body, f.Key) && !strings.Contains(body, "wrong")
}
