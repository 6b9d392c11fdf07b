package trust_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// Engines that send each answer a second time, up to 4 ms later, while two accounts send requests in turns: no account gets what was said
// to the other, no request fails, and the colo server reports these engines.
func TestLateAnswers(t *testing.T) {
	t.Parallel()
	const engines, requests = 9, 24
	keys, documents := make([]string, 2), ""
	for i := range keys {
		key, document := fleettest.NewAccountKey(t, fmt.Sprintf("account%d", i), "weight: 1")
		keys[i], documents = key, documents+document
	}
	for i := range engines {
		delay := time.Duration(i) * time.Millisecond / 2
		address := testkit.Serve(t, func(c net.Conn) { answerTwice(c, delay) })
		documents += fmt.Sprintf("key: endpoints/ams/late%d\nurl: http://%s\npool: late%d\n---\nkey: models/late%d\npool: late%d\n---\n", i, address, i, i, i)
	}
	f := fleettest.StartClosed(t, onebox.Config{Colos: []string{"ams"}}, strings.TrimSuffix(documents, "---\n"))
	f.Key = keys[0]
	f.WatchShared(8 + 2*engines)
	conns := make([]*wiretest.Conn, len(keys))
	for i := range conns {
		conns[i] = wiretest.Dial(t, f.Entry.Address)
		defer conns[i].Close()
	}
	for n := range engines * requests {
		account := n % 2
		conns[account].Post("/v1/chat/completions", fmt.Sprintf(`{"model":"late%d","messages":[{"role":"user","content":"account%d"}]}`, n/requests, account), "Authorization: Bearer "+keys[account])
		if a := conns[account].Read(); a.Status != 200 || a.Body != fmt.Sprintf(`{"said":"account%d"}`, account) {
			t.Errorf("request %d of account%d to late%d: %d %q", n, account, n/requests, a.Status, a.Body)
		}
	}
	if n := f.Metric(f.Colos[0].Admin, "colonnade_out_of_turn_servers"); n != engines {
		t.Errorf("%v engines are reported, want %d", n, engines)
	}
}

// answerTwice answers each chat request with the account that it names, and again after a delay.
func answerTwice(c net.Conn, delay time.Duration) {
	br := bufio.NewReader(c)
	for {
		_ = c.SetDeadline(time.Now().Add(4 * testkit.Timeout))
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if r.Method == http.MethodGet { // a health check
			_, _ = io.WriteString(c, plainOK)
			continue
		}
		said := "account0"
		if strings.Contains(string(body), "account1") {
			said = "account1"
		}
		answer := wiretest.EncodeResponse("200 OK", fmt.Sprintf(`{"said":%q}`, said), "Content-Type: application/json")
		_, _ = io.WriteString(c, answer)
		answered := time.Now()
		time.Sleep(delay)
		if time.Since(answered) < 50*time.Millisecond { // else this machine is too busy
			_, _ = io.WriteString(c, answer)
		}
	}
}
