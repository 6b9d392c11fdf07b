package entry

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/peertls"
	"colonnade/internal/forwardtest"
	"colonnade/internal/tlstest"
)

// With TLS between nodes, the address of a verdict leads only to the node that the verdict names, in the colo of the server that gave it. No
// other host gets the request.
func TestAddressOfAVerdictNeedsItsCertificate(t *testing.T) {
	t.Parallel()
	ca := tlstest.NewCA(t, "fleet")
	peers, err := peertls.LoadTrustStore(peertls.Files(forwardtest.NewFiles(t, ca, forwardtest.Entry(), nil)), forwardtest.Entry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	start := func(pair *tls.Certificate, handler http.HandlerFunc) (address string) {
		server := httptest.NewUnstartedServer(handler)
		server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
		if pair == nil {
			server.Start()
		} else {
			server.TLS = &tls.Config{Certificates: []tls.Certificate{*pair}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13}
			server.StartTLS()
		}
		t.Cleanup(server.Close)
		_, address, _ = strings.Cut(server.URL, "//")
		return address
	}
	pairOf := func(ca *tlstest.CA, uri string) *tls.Certificate {
		pair := ca.Pair(uri, nil)
		return &pair
	}
	f := func(name string, there *tls.Certificate, status int, served int64) {
		t.Helper()
		var got atomic.Int64
		home := start(there, func(w http.ResponseWriter, _ *http.Request) {
			got.Add(1)
			w.Header().Set(hop.HeaderAttempts, "1")
			fmt.Fprint(w, `{}`)
		})
		names := start(pairOf(ca, forwardtest.Colo().String()), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(hop.HeaderVerdict, hop.Verdict{Kind: hop.VerdictMoved, Number: 50301, To: "ams-2", Address: home, Boot: "y", Revision: 7}.String())
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		table := tableOf(t, "key: models/m\n---\nkey: colos/ams\nregion: eu\n---\nkey: servers/ams/ams-1\naddress: "+names+"\nboot: x\n")
		url, _ := startEntryWith(t, Config{Table: tableFunc(table), Peers: peers}, t.TempDir())
		if answered, text := chat(t, url, request); answered != status || got.Load() != served {
			t.Errorf("%s: %d %s, and %d requests arrived", name, answered, text, got.Load())
		}
	}
	f("the node", pairOf(ca, "colonnade:colo/ams/ams-2"), 200, 1)
	f("another node of the colo", pairOf(ca, "colonnade:colo/ams/ams-3"), 503, 0)
	f("the node's name in another colo", pairOf(ca, "colonnade:colo/fra/ams-2"), 503, 0)
	f("an entry", pairOf(ca, "colonnade:entry/ams-2"), 503, 0)
	f("another authority", pairOf(tlstest.NewCA(t, "another authority"), "colonnade:colo/ams/ams-2"), 503, 0)
	f("without TLS", nil, 503, 0)
}
