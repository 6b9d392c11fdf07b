package entry

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
)

// BenchmarkDistance reports by how much the distance of a colo differs from the round trip of the network between, when twenty requests have
// been answered.
func BenchmarkDistance(b *testing.B) {
	for _, roundTrip := range []time.Duration{time.Millisecond, 8 * time.Millisecond, 80 * time.Millisecond} {
		b.Run(roundTrip.String(), func(b *testing.B) {
			url, e := farBehindProxy(b, roundTrip, 5*time.Millisecond)
			for b.Loop() {
				for range 20 {
					answer, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(request))
					if err != nil {
						b.Fatal(err)
					}
					_, _ = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
				}
			}
			measured := observedColo(b, e, "ams").RoundTripMillis
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(measured, "measured-ms")
			b.ReportMetric(measured-float64(roundTrip.Microseconds())/1000, "error-ms")
		})
	}
}

// BenchmarkObserve is what an answer costs that is observed: its load, its server and the round trip.
func BenchmarkObserve(b *testing.B) {
	for _, observed := range []bool{false, true} {
		b.Run(fmt.Sprintf("distance=%v", observed), func(b *testing.B) {
			o, colos := benchObservations(b, 300)
			roundTrip := 8 * time.Millisecond
			server := o.table().Servers(colos[0].Name)[0]
			now := time.Now()
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Millisecond)
				o.noteLoad(poolIn{"m", server.Colo}, hop.Load{Free: 1, Limit: 2}, now)
				o.noteResponsive(server)
				if observed {
					o.state(server.Colo).noteAnswered(roundTrip, true, now)
				}
			}
		})
	}
}

// BenchmarkSeen is what a plan over 300 colos reads of them.
func BenchmarkSeen(b *testing.B) {
	o, colos := benchObservations(b, 300)
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		for _, c := range colos {
			_ = o.seen(poolIn{"m", c.Name}, now)
			_, _ = o.roundTrip(c)
		}
	}
}

func benchObservations(b *testing.B, n int) (*observations, []*fleet.Colo) {
	documents := "key: models/m\n"
	for i := range n {
		documents += fmt.Sprintf("---\nkey: colos/colo-%d\n---\nkey: servers/colo-%[1]d/colo-%[1]d-1\naddress: 127.0.0.1:1\nboot: x\n", i)
	}
	o := newObservations(tableFunc(tableOf(b, documents)), allElsewhere)
	for _, c := range o.table().Colos() {
		o.noteLoad(poolIn{"m", c.Name}, hop.Load{Free: 1, Limit: 2}, time.Now())
	}
	return o, o.table().Colos()
}
