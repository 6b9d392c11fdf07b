package entry

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/accounts"
	"colonnade/fleet"
	"colonnade/forwarding/hop"
)

// benchColo is the documents of a model and of a colo of n servers, all of them one HTTP server that serves each request.
func benchColo(b *testing.B, n int) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	answer := `{"choices":[{"message":{"role":"assistant","content":"` + strings.Repeat("word ", 200) + `"}}]}`
	headers := map[string]string{ // those of a colo server
		hop.HeaderLoad: hop.Load{Free: 10, Held: 2, Limit: 12, Known: true}.String(), hop.HeaderQueuedMS: "0", hop.HeaderAttempts: "1",
		hop.HeaderServedBy: hop.NodeName("ams", "ams-1"), hop.HeaderTook: "250",
	}
	s := &fasthttp.Server{CloseOnShutdown: true, Handler: func(rc *fasthttp.RequestCtx) {
		for name, value := range headers {
			rc.Response.Header.Set(name, value)
		}
		rc.SetContentType("application/json")
		rc.SetBodyString(answer)
	}}
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(ln) })
	b.Cleanup(func() {
		_ = s.Shutdown()
		serving.Wait()
	})
	documents := "key: models/m\n---\nkey: colos/ams\nregion: eu\n"
	for i := range n {
		documents += fmt.Sprintf("---\nkey: servers/ams/ams-%d\naddress: %s\nboot: x\nprotocol: {min: 1, max: %d}\n", i+1, ln.Addr(), fleet.Protocol)
	}
	return documents
}

// BenchmarkServersOfAColo is what several servers of a colo add to a request beside liveness.BenchmarkWatch: their order.
func BenchmarkServersOfAColo(b *testing.B) {
	for _, n := range []int{1, 3, 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			table := tableOf(b, benchColo(b, n))
			var orders ranking
			b.ReportAllocs()
			for b.Loop() {
				tr := newAttempts([]candidate{{Colo: table.Colos()[0]}}, func(colo string) []*fleet.Server { return orders.of(table, poolIn{"m", colo}) },
					queueDefault, fleet.Retry{Errors: 2, OutOfCapacity: 4})
				at, _ := tr.next()
				tr.mayLose(&at, 3)
			}
		})
	}
}

// BenchmarkRequest is what a plain request allocates in an entry and its transport. Its client and the colo server, which run in the same
// process, allocate next to nothing.
func BenchmarkRequest(b *testing.B) {
	key, document := accounts.NewKey("acme", "bench", time.Now(), time.Time{}) // an account without a document of its own
	documents := benchColo(b, 1) + fmt.Sprintf("---\nkey: keys/bench\naccount: acme\nsha256: %q\n", hex.EncodeToString(document.SHA256[:]))
	url, _ := startEntryWith(b, Config{Table: tableFunc(tableOf(b, documents)), Logger: slog.New(slog.DiscardHandler)}, b.TempDir())
	client := &fasthttp.Client{Dial: func(address string) (net.Conn, error) { return net.Dial("tcp", address) }}
	b.Cleanup(client.CloseIdleConnections)
	request, response := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	request.SetRequestURI(url + "/v1/chat/completions")
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.SetMethod("POST")
	request.Header.SetContentType("application/json")
	request.SetBodyString(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("a", 950) + `"}]}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := client.Do(request, response); err != nil || response.StatusCode() != 200 {
			b.Fatalf("%d %v %.200q", response.StatusCode(), err, response.Body())
		}
	}
}

// BenchmarkPlainRequest sends requests to an entry with one server and to one with three, in turns, and reports the processor time of each.
func BenchmarkPlainRequest(b *testing.B) {
	const clients, block = 16, 64
	var urls [2]string
	for i, n := range []int{1, 3} {
		urls[i], _ = startEntryWith(b, Config{Table: tableFunc(tableOf(b, benchColo(b, n))), Logger: slog.New(slog.DiscardHandler)}, b.TempDir())
	}
	client := &fasthttp.Client{Dial: func(address string) (net.Conn, error) { return net.Dial("tcp", address) }}
	b.Cleanup(client.CloseIdleConnections)
	send := func(url string) {
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				request, response := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
				defer fasthttp.ReleaseRequest(request)
				defer fasthttp.ReleaseResponse(response)
				request.SetRequestURI(url + "/v1/chat/completions")
				request.Header.SetMethod("POST")
				request.Header.SetContentType("application/json")
				request.SetBodyString(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("a", 950) + `"}]}`)
				for range block {
					if err := client.Do(request, response); err != nil || response.StatusCode() != 200 {
						b.Errorf("%d %v %.200q", response.StatusCode(), err, response.Body())
						return
					}
				}
			})
		}
		all.Wait()
	}
	var used [2]time.Duration
	least := [2]time.Duration{math.MaxInt64, math.MaxInt64} // of one round, which other processes disturb least
	rounds := 0
	turn := func(i int) {
		before := processorTime()
		send(urls[i])
		spent := processorTime() - before
		used[i] += spent
		least[i] = min(least[i], spent)
	}
	for b.Loop() {
		turn(rounds % 2)
		turn(1 - rounds%2)
		rounds++
	}
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(rounds*clients*block) }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(per(used[0]), "one-cpu-µs/req")
	b.ReportMetric(per(used[1]), "three-cpu-µs/req")
	b.ReportMetric(per(used[1])/per(used[0]), "cpu-ratio")
	b.ReportMetric(float64(least[1])/float64(least[0]), "min-cpu-ratio")
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
