package entry

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"colonnade/forwarding/hop"
)

// An admin may force a colo that there is. If no server of it takes requests, the request is refused, and no other colo is asked.
func TestForcedColo(t *testing.T) {
	t.Parallel()
	documents := twoColos + "---\nkey: colos/draining\n---\nkey: servers/draining/1\naddress: 127.0.0.1:3\nboot: x\nstate: draining\n"
	f := func(account, colo string, status int, want string) {
		t.Helper()
		url := startEntry(t, tableOf(t, documents+"---\nkey: accounts/open\n"+account))
		request, err := http.NewRequest(http.MethodPost, url+"/v1/chat/completions", strings.NewReader(`{"model": "m", "messages": []}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("content-type", "application/json")
		request.Header.Set(hop.HeaderForceColo, colo)
		a, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = a.Body.Close() }()
		body, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		if a.StatusCode != status || !strings.Contains(string(body), want) {
			t.Errorf("forced to %s: %d %s, want %d and %q", colo, a.StatusCode, body, status, want)
		}
	}
	f("admin: false\n", "ams", 400, "for admin accounts only")
	f("admin: true\n", "nowhere", 400, `is \"nowhere\": it must be the name of a colo`)
	f("admin: true\n", "draining", 503, "draining")
}
