package onebox_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/internal/faultproxy"
	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/node"
	"colonnade/onebox"
)

const ms = time.Millisecond

func TestParseLatency(t *testing.T) {
	t.Parallel()
	colos := []string{"ams", "fra", "eu-west", "eu", "west-fra", "eu-west-ams"}
	f := func(flags, want string) {
		t.Helper()
		got, err := onebox.ParseLatency(strings.Split(flags, ","), colos)
		if fmt.Sprint(got) != want || err != nil {
			t.Errorf("ParseLatency(%q) = %v, %v, want %s", flags, got, err, want)
		}
	}
	f("ams-fra=8ms", "map[ams-fra:8ms]")
	f("fra-ams=8ms, entry-ams=0s", "map[entry-ams:0s fra-ams:8ms]")
	f("eu-west-ams-fra=1m", "map[eu-west-ams-fra:1m0s]")
	f("ams-eu-west=1ms", "map[ams-eu-west:1ms]")
	f("eu-west-entry=1.5ms", "map[eu-west-entry:1.5ms]")

	refused := func(flags, want string) {
		t.Helper()
		if got, err := onebox.ParseLatency(strings.Split(flags, ","), colos); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseLatency(%q) = %v, %v, want %s", flags, got, err, want)
		}
	}
	const all = "ams, fra, eu-west, eu, west-fra, eu-west-ams, entry"
	refused("ams-waw=8ms", `"ams-waw" is no pair of the places `+all)
	refused("ams-fra-ams=8ms", `"ams-fra-ams" is no pair of the places `+all)
	refused("-ams=8ms", `"-ams" is no pair of the places `+all)
	refused("ams-=8ms", `"ams-" is no pair of the places `+all)
	refused("eu-west-fra=8ms", `"eu-west-fra" has more than one meaning, eu and west-fra or eu-west and fra: name the colos otherwise`)
	refused("ams-ams=8ms", `"ams-ams=8ms": ams-ams is the same place twice: name two of `+all)
	refused("ams-fra=1ms,fra-ams=1ms", `"fra-ams=1ms": the pair is given twice`)
	refused("ams-fra=1ms,ams-fra=2ms", `"ams-fra=2ms": the pair is given twice`)
	refused("ams-fra=-1ms", `ams-fra cannot be -1ms apart: a round trip is from 0s to 1m0s`)
	refused("ams-fra=60001ms", `ams-fra cannot be 1m0.001s apart: a round trip is from 0s to 1m0s`)
	for _, flags := range []string{"", "ams", "ams-fra", "ams=1ms", "ams-fra=", "ams-fra=8", "ams-fra=soon", "=", "-"} {
		refused(flags, fmt.Sprintf("%q is no round trip between two places: write for example ams-entry=8ms", flags))
	}
}

// The entry is where the first colo is, unless a pair names it, and paths lead over other places.
func TestLatencyBetween(t *testing.T) {
	t.Parallel()
	colos := []string{"ams", "fra", "iad", "syd"}
	f := func(l onebox.Latency, a, b string, want time.Duration) {
		t.Helper()
		if got := l.Between(a, b, colos); got != want {
			t.Errorf("%v: from %s to %s %v, want %v", l, a, b, got, want)
		}
		if got := l.Between(b, a, colos); got != want {
			t.Errorf("%v: from %s to %s %v, want %v", l, b, a, got, want)
		}
	}
	l := onebox.Latency{{"ams", "fra"}: 8 * ms, {"iad", "ams"}: 80 * ms}
	f(l, "ams", "fra", 8*ms)
	f(l, "entry", "ams", 0)
	f(l, "entry", "fra", 8*ms)
	f(l, "fra", "iad", 88*ms)
	f(l, "fra", "syd", 0)
	l[onebox.Pair{"entry", "iad"}] = 5 * ms
	f(l, "entry", "iad", 5*ms)
	f(l, "entry", "ams", 85*ms)
	l[onebox.Pair{"iad", "fra"}] = 90 * ms
	f(l, "iad", "fra", 90*ms)
	f(l, "entry", "fra", 93*ms)
}

func TestLatencyIsChecked(t *testing.T) {
	t.Parallel()
	f := func(l onebox.Latency, want string) {
		t.Helper()
		c := onebox.Config{Colos: []string{"ams", "fra"}, Latency: l}
		if err := onebox.Run(t.Context(), c, func(*onebox.Fleet) {}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", l, err, want)
		}
	}
	f(onebox.Latency{{"ams", "waw"}: ms}, "ams-waw is no pair of the places ams, fra, entry")
	f(onebox.Latency{{"ams", "fra"}: ms, {"fra", "ams"}: ms}, "ams-fra and fra-ams are one pair")
	f(onebox.Latency{{"ams", "fra"}: time.Hour}, "ams-fra cannot be 1h0m0s apart: a round trip is from 0s to 1m0s")
	c := onebox.Config{Colos: []string{"ams", "entry"}, Latency: onebox.Latency{}}
	if err := onebox.Run(t.Context(), c, func(*onebox.Fleet) {}); err == nil || !strings.Contains(err.Error(), "a colo is named entry") {
		t.Error(err)
	}
}

// Requests travel as long as the latency says, also if the entry could call its colos as functions.
func TestLatency(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{
		Engine: fleettest.QuickEngine(4), Direct: true,
		Latency: onebox.Latency{{"entry", "ams"}: 40 * ms, {"entry", "fra"}: 0, {"ams", "fra"}: 60 * ms},
	}, "")
	f.WatchShared(16)
	began := time.Now()
	a := f.Chat(fleettest.ChatBody(3, true))
	if took := time.Since(began); a.Status != 200 || took < 40*ms {
		t.Errorf("%d %s after %v", a.Status, a.Body, took)
	}
	answerTime := func(from, server string) time.Duration {
		c, err := net.Dial("tcp", f.Proxy(from, server).Address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(testkit.Timeout))
		began := time.Now()
		_, _ = c.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
		if answer, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || answer.StatusCode != http.StatusNotFound {
			t.Errorf("from %s: %v, %v", from, answer, err)
		}
		return time.Since(began)
	}
	if took := answerTime("ams", "fra-1"); took < 60*ms {
		t.Errorf("an answer from fra to ams took %v", took)
	}
	if took := answerTime("entry", "ams-1"); took < 40*ms {
		t.Errorf("an answer from ams to the entry took %v", took)
	}
	if p := f.Proxy("ams", "ams-1"); p != nil {
		t.Error("there is a proxy inside a colo")
	}
}

// The faults of a proxy are those of the way from one place to one server, with TLS between nodes, too.
func TestFaultsBetweenPlaces(t *testing.T) {
	t.Parallel()
	f := fleettest.StartSecure(t, onebox.Config{Engine: fleettest.QuickEngine(4), Latency: onebox.Latency{}}, "", nil)
	f.WatchShared(16)
	wantColo := func(want string) {
		t.Helper()
		if a := f.Chat(fleettest.ChatBody(1, false)); a.Status != 200 || a.Header.Get("x-colonnade-colo") != want {
			t.Errorf("%d from %s, want %s: %s", a.Status, a.Header.Get("x-colonnade-colo"), want, a.Body)
		}
	}
	wantColo("ams")
	toAMS := f.Proxy(onebox.EntryPlace, "ams-1")
	toAMS.InjectOpen(faultproxy.Fault{Kind: faultproxy.Reset})
	toAMS.Refuse()
	wantColo("fra")
	toAMS.Heal()
}

// Places that are near each other are in one region, also the entry.
func TestRegionsByLatency(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{
		Engine: fleettest.QuickEngine(1), Colos: []string{"ams", "iad", "fra", "syd"},
		Latency: onebox.Latency{{"ams", "fra"}: 20 * ms, {"ams", "iad"}: 21 * ms, {"entry", "iad"}: ms},
	}, "")
	page := f.FleetPage(f.Entry.Admin)
	for key, want := range map[string]string{"colos/ams": "region-1", "colos/fra": "region-1", "colos/iad": "region-2", "colos/syd": "region-4"} {
		if got := page.Field(key, "region"); got != want {
			t.Errorf("%s is in %v, want %s", key, got, want)
		}
	}
	if region := registeredEntry(t, f).Region; region != "region-2" {
		t.Errorf("the entry is in %q", region)
	}
}

// registeredEntry returns the document that the entry has registered.
func registeredEntry(t *testing.T, f *fleettest.Fleet) (e fleet.EntryNode) {
	t.Helper()
	client := f.Operator().Client
	testkit.WaitFor(t, "the entry to be registered", func() bool {
		answer, err := client.Get(t.Context(), node.Prefix+"entries/entry-1")
		return err == nil && len(answer.Kvs) == 1 && json.Unmarshal(answer.Kvs[0].Value, &e) == nil
	})
	return e
}

// A request that a full colo forwards by itself takes the way between the two colos, however far the entry is from the second.
func TestLatencyBetweenColos(t *testing.T) {
	t.Parallel()
	engine := fleettest.QuickEngine(1)
	engine.ITL = 50 * ms
	f := fleettest.Start(t, onebox.Config{Engine: engine, Latency: onebox.Latency{{"entry", "ams"}: 30 * ms, {"ams", "fra"}: 10 * ms}}, amsFirst)
	f.WatchShared(16)
	f.Proxy(onebox.EntryPlace, "fra-1").Swallow()
	f.Proxy("ams", "fra-1").Delay(100 * ms)
	running := f.LongStream("default")
	defer running.Close()
	began := time.Now()
	a := f.Chat(fleettest.ChatBody(1, false))
	if took := time.Since(began); a.Status != 200 || a.Header.Get("x-colonnade-colo") != "fra" || took < 230*ms {
		t.Errorf("%d from %q after %v, want fra after 230 ms: %s", a.Status, a.Header.Get("x-colonnade-colo"), took, a.Body)
	}
}

// amsFirst has ams asked first also while it is known to be full.
const amsFirst = "key: models/demo-chat\naliases: [default]\ntype: chat\npool: demo\nrouting: {steps: [{colos: [ams]}, {colos: [fra]}]}\n"
