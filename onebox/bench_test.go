package onebox_test

import (
	"bufio"
	"bytes"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// The load of benchmarks that compare two fleets, in turns and in one run.
const (
	benchClients = 32
	benchBlock   = 1024 // requests per turn
	benchStreams = 64
	benchChunks  = 400
)

// benchEngine answers with 1.5 KB, or with a chunk every 5 ms to a body that asks for a stream.
func benchEngine(b *testing.B) string {
	plain := []byte(`{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat("word ", 280) + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":280,"total_tokens":290}}`)
	event := []byte(`data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}` + "\n\n")
	return serveBench(b, func(rc *fasthttp.RequestCtx) {
		switch {
		case string(rc.Path()) == "/v1/models":
			rc.SetBodyString(`{"data":[{"id":"m"}]}`)
		case bytes.Contains(rc.PostBody(), []byte(`"stream":true`)):
			rc.SetContentType("text/event-stream")
			rc.SetBodyStreamWriter(func(w *bufio.Writer) {
				for range benchChunks {
					_, _ = w.Write(event)
					if w.Flush() != nil {
						return
					}
					time.Sleep(5 * time.Millisecond)
				}
				_, _ = w.WriteString("data: [DONE]\n\n")
			})
		default:
			rc.SetContentType("application/json")
			rc.SetBody(plain)
		}
	})
}

func serveBench(b *testing.B, h fasthttp.RequestHandler) string {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := &fasthttp.Server{Handler: h, NoDefaultServerHeader: true, CloseOnShutdown: true}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(ln)
	}()
	b.Cleanup(func() {
		_ = s.Shutdown()
		<-done
	})
	return ln.Addr().String()
}

// dialBench avoids fasthttp's own dialer, which leaves a goroutine behind.
func dialBench(address string) (net.Conn, error) { return net.Dial("tcp", address) }

// cpu returns the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// path is what a benchmark sends requests by: its name and base URL.
type path struct{ name, base string }

// turns lets two paths work in turns, in the order A B B A. It reports wall and processor time for each unit of work, and the ratios of
// the second path to the first: of all rounds together, and of the least processor time of one round, which other processes disturb least.
func turns(b *testing.B, paths [2]path, units int, unit string, work func(base string)) {
	var wall, used [2]time.Duration
	least := [2]time.Duration{math.MaxInt64, math.MaxInt64}
	rounds := 0
	turn := func(i int) {
		began, before := time.Now(), cpu()
		work(paths[i].base)
		spent := cpu() - before
		wall[i] += time.Since(began)
		used[i] += spent
		least[i] = min(least[i], spent)
	}
	for _, p := range paths {
		work(p.base)
	}
	for b.Loop() {
		turn(rounds % 2)
		turn(1 - rounds%2)
		rounds++
	}
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(rounds*units) }
	b.ReportMetric(0, "ns/op")
	for i, p := range paths {
		b.ReportMetric(per(wall[i]), p.name+"-µs/"+unit)
		b.ReportMetric(per(used[i]), p.name+"-cpu-µs/"+unit)
	}
	b.ReportMetric(per(wall[1])/per(wall[0]), "wall-ratio")
	b.ReportMetric(per(used[1])/per(used[0]), "cpu-ratio")
	b.ReportMetric(float64(least[1])/float64(least[0]), "min-cpu-ratio")
}

func benchClient(b *testing.B) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: benchClients + benchStreams}
	b.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// plainRequests returns a function that sends benchBlock requests.
func plainRequests(b *testing.B) func(base string) {
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("a", 950) + `"}]}`)
	client := &fasthttp.Client{MaxConnsPerHost: 2 * benchClients, Dial: dialBench}
	b.Cleanup(client.CloseIdleConnections)
	return func(base string) {
		var all sync.WaitGroup
		for range benchClients {
			all.Go(func() {
				request, response := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
				defer fasthttp.ReleaseRequest(request)
				defer fasthttp.ReleaseResponse(response)
				request.SetRequestURI(base + "/chat/completions")
				request.Header.SetMethod("POST")
				request.Header.SetContentType("application/json")
				request.SetBodyRaw(body)
				for range benchBlock / benchClients {
					if err := client.Do(request, response); err != nil || response.StatusCode() != 200 {
						b.Errorf("%d %v %.200q", response.StatusCode(), err, response.Body())
						return
					}
				}
			})
		}
		all.Wait()
	}
}

// streams returns a function that reads benchStreams streams at once.
func streams(b *testing.B) func(base string) {
	client := benchClient(b)
	return func(base string) {
		var all sync.WaitGroup
		for range benchStreams {
			all.Go(func() {
				r, err := client.Post(base+"/chat/completions", "application/json", strings.NewReader(`{"model":"m","stream":true,"messages":[]}`))
				if err != nil {
					b.Error(err)
					return
				}
				defer r.Body.Close()
				text, err := io.ReadAll(r.Body)
				if n := bytes.Count(text, []byte("data: {")); err != nil || n != benchChunks {
					b.Errorf("%d chunks, %v: %.200q", n, err, text)
				}
			})
		}
		all.Wait()
	}
}
