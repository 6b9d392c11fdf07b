package entry

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"colonnade/fleet"
	"colonnade/internal/docpage"
)

// dayColours are those of Okabe and Ito ("Color Universal Design", 2008), which colour-blind readers can tell apart.
func dayColour(algorithm string) string {
	switch algorithm {
	case fleet.AlgorithmSteps:
		return "#0072b2"
	case fleet.AlgorithmRandom:
		return "#666666"
	case fleet.AlgorithmLatency:
		return "#009e73"
	}
	return "#d55e00"
}

// dayMostAdded is the end of the axis of added latencies, in ms.
const dayMostAdded = 1000

// percent writes a share.
func percent(share float64) string { return fmt.Sprintf("%.2f %%", 100*share) }

// dayTable returns the table of the page.
func dayTable(results []*dayResult) string {
	var b strings.Builder
	b.WriteString("| algorithm | `onward` | refused | gave up | added | 50 % | 99 % | network | wasted | waiting | colos asked | MB between colos | served, worst region | fairness |\n")
	b.WriteString("| --- | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |\n")
	for _, r := range results {
		n := r.total
		mean := func(sum int64) string { return fmt.Sprintf("%.0f ms", per(sum, n.answered)/1e6) }
		onward := "no"
		if r.variant.onward {
			onward = "yes"
		}
		jain, least := r.fairness()
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %d ms | %d ms | %s | %s | %s | %.2f | %d | %s | %.4f |\n", r.variant.algorithm, onward,
			percent(per(n.refused, n.requests)), percent(per(n.gaveUp, n.clients)), mean(int64(n.added)), r.median.Milliseconds(), r.p99.Milliseconds(),
			mean(int64(n.network)), mean(int64(n.added-n.network-n.waited)), mean(int64(n.waited)), per(n.asked, n.requests),
			n.coloBytes/1e6, percent(least), jain)
	}
	return b.String()
}

// dayPanels returns the panels of the picture.
func dayPanels(results []*dayResult) []dayPanel {
	demand := dayPanel{title: "Demand, as a share of all slots (grey: " + dayLostRegion + " is lost)", unit: " %", lines: []dayLine{
		{name: "all regions", colour: "#0f172a"}, {name: "slots left", colour: "#94a3b8", dashed: true},
	}}
	demand.lines[0].values, demand.lines[1].values = results[0].demand(), results[0].slotsLeft()
	refused := dayPanel{title: "Requests refused", unit: " %"}
	added := dayPanel{title: fmt.Sprintf("Added latency, mean (cut off at %d ms)", dayMostAdded), unit: " ms"}
	for _, r := range results {
		if r.variant.onward {
			continue
		}
		line := dayLine{name: r.variant.algorithm, colour: dayColour(r.variant.algorithm)}
		line.values = r.series(func(n dayCounts) float64 { return 100 * per(n.refused, n.requests) })
		refused.lines = append(refused.lines, line)
		line.values = r.series(func(n dayCounts) float64 { return per(n.added, n.answered) / 1e6 })
		added.lines = append(added.lines, line)
	}
	panels := []dayPanel{demand, refused, added}
	for i := range panels {
		most := 1.0
		for _, l := range panels[i].lines {
			for _, value := range l.values {
				most = max(most, value)
			}
		}
		panels[i].most, panels[i].step = niceMost(min(most, dayMostAdded))
	}
	return panels
}

func (r *dayResult) series(value func(dayCounts) float64) []float64 {
	values := make([]float64, dayBuckets)
	for i, n := range r.buckets {
		values[i] = value(n)
	}
	return values
}

// demand returns the slots that the clients of each span of time need, in per cent of all.
func (r *dayResult) demand() []float64 {
	span := r.schedule.at(24.0 / dayBuckets).Seconds()
	return r.series(func(n dayCounts) float64 {
		return 100 * float64(n.clients) * dayMeanHold.Seconds() / span / float64(r.slots)
	})
}

// slotsLeft returns the slots that are not lost, in per cent of all.
func (r *dayResult) slotsLeft() []float64 {
	values := make([]float64, dayBuckets)
	for i := range values {
		values[i] = 100
		if hour := float64(i) * 24 / dayBuckets; hour >= dayLostFrom && hour < dayLostTo {
			values[i] = 100 * float64(r.slots-r.lostSlots) / float64(r.slots)
		}
	}
	return values
}

const dayPicture = "docs/routing-day.svg"

// writeDay compares the page and the picture with the results; with -update, it writes them.
func writeDay(t *testing.T, results []*dayResult) {
	t.Helper()
	docpage.Check(t, "docs/routing.md", map[string]string{"day": dayTable(results)})
	picture := drawDay("Demand, refusals and added latency of a simulated day, by the algorithm of routing", dayPanels(results))
	path := filepath.Join(docpage.Root(t), dayPicture)
	old, err := os.ReadFile(path)
	switch {
	case string(old) == picture:
	case docpage.Updating():
		err = os.WriteFile(path, []byte(picture), 0o644)
		if err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is stale: %v", dayPicture, err)
	}
}
