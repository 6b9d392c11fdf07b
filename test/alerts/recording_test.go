package alerts_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"colonnade/internal/fleettest"
)

// interval is the time between two scrapes, as the rules expect it.
const interval = 15 * time.Second

// export is what the nodes of a fleet export at one moment, as Prometheus stores it: with the labels job and instance, and with up.
type export struct {
	taken  time.Time
	values map[string]float64 // by series
	kinds  map[string]string  // types of metrics, by name
}

// scrape reads the metrics of all nodes of a fleet, and of further ones by their admin addresses.
func scrape(f *fleettest.Fleet, entries map[string]string) *export {
	f.T.Helper()
	e := &export{taken: time.Now(), values: map[string]float64{}, kinds: map[string]string{}}
	add := func(job, instance, admin string) {
		up := fmt.Sprintf("up{job=%q,instance=%q}", job, instance)
		if f.HasEnded(instance) {
			e.values[up] = 0
			return
		}
		e.values[up] = 1
		e.add(f.T, string(f.Page(admin, "/metrics")), fmt.Sprintf("job=%q,instance=%q", job, instance))
	}
	add("entry", f.Entry.Node, f.Entry.Admin)
	for name, admin := range entries {
		add("entry", name, admin)
	}
	for _, c := range f.Colos {
		add("colo", c.Node, c.Admin)
	}
	return e
}

// add adds a page of metrics, without those of the runtime and the process.
func (e *export) add(t testing.TB, page, labels string) {
	t.Helper()
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(text, " ")
			e.kinds[name] = kind
		}
		if !strings.HasPrefix(line, "colonnade_") && !strings.HasPrefix(line, "inference_") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			t.Fatalf("cannot read %q: %v", line, err)
		}
		name, own, _ := strings.Cut(strings.TrimSuffix(line[:at], "}"), "{")
		if own != "" {
			own += ","
		}
		e.values[name+"{"+own+labels+"}"] = value
	}
}

// metricOf returns the name of a series.
func metricOf(series string) string {
	name, _, _ := strings.Cut(series, "{")
	return name
}

// rises reports whether a metric is a counter, or a part of a histogram.
func (e *export) rises(name string) bool {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && e.kinds[base] == "histogram" {
			return true
		}
	}
	return e.kinds[name] == "counter"
}

// period is a time for which exports are stretched, in the order in which they were taken.
type period struct {
	length  time.Duration
	exports []*export
	silence time.Time // since when, in the recording, etcd has not answered; zero: it does
}

// timeline has the samples of each series, one for each interval; a nil one stands for none.
type timeline map[string][]*float64

// stretch returns the samples of periods that follow each other. Between two exports of a period, counters rise evenly, and gauges keep
// their value. While etcd does not answer, the age of the documents grows as it would in the time for which the period is stretched.
func stretch(periods ...period) timeline {
	all, start, before := timeline{}, periods[0].exports[0].taken, 0
	for _, p := range periods {
		steps := int(p.length / interval)
		for _, series := range p.series() {
			for len(all[series]) < before {
				all[series] = append(all[series], nil)
			}
			for i := range steps {
				all[series] = append(all[series], p.sample(series, i, steps, start))
			}
		}
		before += steps
	}
	return all
}

func (p *period) series() []string {
	names := map[string]bool{}
	for _, e := range p.exports {
		for series := range e.values {
			names[series] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// sample returns the sample of step i of a period.
func (p *period) sample(series string, i, steps int, start time.Time) *float64 {
	position := float64(i) / float64(steps) * float64(len(p.exports)-1)
	at := int(position)
	value, found := p.exports[at].values[series]
	if !found {
		return nil
	}
	name := metricOf(series)
	next, continues := value, false
	if at+1 < len(p.exports) {
		next, continues = p.exports[at+1].values[series]
	}
	age := name == "colonnade_config_age_seconds" && !p.silence.IsZero()
	if continues && (age || p.exports[at].rises(name)) {
		value += (next - value) * (position - float64(at))
	}
	if age {
		value *= p.length.Seconds() / p.exports[len(p.exports)-1].taken.Sub(p.silence).Seconds()
	}
	if strings.HasSuffix(name, "_timestamp_seconds") {
		value -= float64(start.Unix()) // promtool's time begins at 0
	}
	return &value
}

// text returns the samples in the notation of promtool.
func text(samples []*float64) string {
	var parts []string
	for i := 0; i < len(samples); {
		n := 1
		for i+n < len(samples) && same(samples[i], samples[i+n]) {
			n++
		}
		if samples[i] == nil {
			parts = append(parts, fmt.Sprintf("_x%d", n))
		} else {
			parts = append(parts, fmt.Sprintf("%s+0x%d", strconv.FormatFloat(*samples[i], 'f', -1, 64), n-1))
		}
		i += n
	}
	return strings.Join(parts, " ")
}

func same(a, b *float64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
