package trust_test

import (
	"strings"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// A head that the entry accepts, and that is too large for the next node with a hop token beside it, is an error of the client: no
// server is blamed for it.
func TestHeadTooLargeForTheHop(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{Colos: []string{"ams", "fra"}, Engine: fleettest.SteadyEngine(4)}, "key: defaults\nmodel: {forward_headers: [x-large]}")
	f.WatchShared(0)
	w := wiretest.Dial(t, f.Entry.Address)
	defer w.Close()
	w.Post("/v1/chat/completions", fleettest.ChatBody(1, false), "X-Large: "+strings.Repeat("x", 15<<10+700))
	a := w.Read()
	if a.Status != 431 || a.APIError(t).Code != "headers_too_large" || a.Header.Get("x-colonnade-attempts") != "0" {
		t.Errorf("%d %v %s", a.Status, a.Header, a.Body)
	}
	if _, page := testkit.Get("http://" + f.Entry.Admin + "/debug/config"); !strings.Contains(page, `"unresponsive_servers": []`) {
		t.Errorf("a server counts as unresponsive: %s", page)
	}
	if a := f.RawChat(fleettest.ChatBody(1, false)); a.Status != 200 {
		t.Errorf("afterwards: %d", a.Status)
	}
}
