package hops_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"colonnade/internal/faultproxy"
	"colonnade/internal/fleettest"
	"colonnade/onebox"
)

// benchFleet is a fleet whose first colo is full. between is the round trip between colos, toEntry that to the entry.
func benchFleet(b *testing.B, between, toEntry time.Duration) *farFleet {
	b.Helper()
	c := farConfig(fleettest.SteadyEngine(8))
	c.Engine.ITL, c.Engine.Record = 5*time.Millisecond, 1
	for pair := range c.Latency {
		c.Latency[pair] = between
		if pair[0] == onebox.EntryPlace {
			c.Latency[pair] = toEntry
		}
	}
	f := &farFleet{Fleet: fleettest.Start(b, c, farDocuments(noSpill))}
	f.served = f.Chat(chat(onward, 1, false)).Header.Get("x-request-id")
	return f
}

// firstByte returns how long a stream takes to its first byte, and reads it to its end.
func (f *farFleet) firstByte(body string) time.Duration {
	r, err := http.NewRequest(http.MethodPost, f.URL()+"/chat/completions", strings.NewReader(body))
	if err != nil {
		f.T.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	began := time.Now()
	a, err := f.Client.Do(r)
	if err != nil {
		f.T.Fatal(err)
	}
	defer a.Body.Close()
	in := bufio.NewReader(a.Body)
	if _, err := in.ReadByte(); err != nil || a.Header.Get("x-colonnade-colo") != "fra" {
		f.T.Fatalf("%v: %d %v", err, a.StatusCode, a.Header)
	}
	took := time.Since(began)
	_, _ = io.Copy(io.Discard, in)
	return took
}

// median returns the middle of some times, which it sorts.
func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// The first colo is full: the time to the first byte of requests that it sends on to the next one, beside that of requests that come back to
// the entry first. Where all are close to each other, none travels, and both are as quick.
func BenchmarkFirstByteOfNextColo(b *testing.B) {
	for _, c := range []struct{ between, toEntry time.Duration }{
		{8 * time.Millisecond, 80 * time.Millisecond}, {time.Millisecond, time.Millisecond},
	} {
		b.Run(fmt.Sprintf("%v between, %v to the entry", c.between, c.toEntry), func(b *testing.B) {
			f := benchFleet(b, c.between, c.toEntry)
			f.fill("ams")
			for _, model := range both { // opens the connections, and measures distances
				for range 3 {
					f.firstByte(chat(model, 1, true))
				}
			}
			took := map[string][]time.Duration{}
			for b.Loop() {
				for _, model := range both {
					took[model] = append(took[model], f.firstByte(chat(model, 1, true)))
				}
			}
			on, back := median(took[onward]), median(took[walk])
			b.ReportMetric(float64(on.Microseconds())/1000, "ms-onward")
			b.ReportMetric(float64(back.Microseconds())/1000, "ms-without")
			b.ReportMetric(float64(on)/float64(back), "ratio")
		})
	}
}

// cpuTime returns the processor time that this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkChunkOverTwoColos measures the processor time of the whole process (client, entry, colos, proxies, engine) for each chunk of a
// stream that comes over two colos, beside that of a stream that comes over one. The proxies between nodes, one more with a relay, are part
// of it.
func BenchmarkChunkOverTwoColos(b *testing.B) {
	f := benchFleet(b, 0, away)
	f.fill("ams")
	const streams, chunks = 8, 200
	used := map[string]time.Duration{}
	n := 0
	for b.Loop() {
		n++
		for _, model := range both {
			f.firstByte(chat(model, 1, true))
			began := cpuTime()
			var all sync.WaitGroup
			for range streams {
				all.Go(func() { f.firstByte(chat(model, chunks, true)) })
			}
			all.Wait()
			used[model] += cpuTime() - began
		}
	}
	perChunk := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(n*streams*chunks) }
	b.ReportMetric(perChunk(used[onward]), "µs/chunk-onward")
	b.ReportMetric(perChunk(used[walk]), "µs/chunk-without")
}

// One of three colos swallows packets: the time of the requests that the others serve, beside that before. The requests that have found it
// silent are not among them.
func BenchmarkColoThatSwallows(b *testing.B) {
	f := benchFleet(b, time.Millisecond, away)
	measure := func() (all []time.Duration) {
		var mu sync.Mutex
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				for range 100 {
					began := time.Now()
					a := f.Chat(chat("only-fra", 1, false))
					took := time.Since(began)
					if a.Status != 200 {
						b.Errorf("%d %s", a.Status, a.Body)
					}
					mu.Lock()
					all = append(all, took)
					mu.Unlock()
				}
			})
		}
		clients.Wait()
		slices.Sort(all)
		return all
	}
	p := f.Proxy(onebox.EntryPlace, "ams-1")
	var before, during []time.Duration
	for b.Loop() {
		p.Heal()
		before = append(before, measure()...)
		p.Inject(faultproxy.Fault{Kind: faultproxy.Swallow})
		var stuck sync.WaitGroup
		for range 4 { // requests for the silent colo, which wait a second and go elsewhere
			stuck.Go(func() { f.Chat(chat(onward, 1, false)) })
		}
		during = append(during, measure()...)
		stuck.Wait()
	}
	slices.Sort(before)
	slices.Sort(during)
	p99 := func(all []time.Duration) time.Duration { return all[len(all)*99/100] }
	b.ReportMetric(float64(p99(before).Microseconds())/1000, "ms-p99-before")
	b.ReportMetric(float64(p99(during).Microseconds())/1000, "ms-p99-during")
	b.ReportMetric(float64(p99(during))/float64(p99(before)), "ratio")
}
