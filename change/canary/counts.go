package canary

import (
	"errors"
	"strconv"
	"strings"
)

// Figure is a share of a node's requests that a change may raise.
type Figure string

// The figures.
const (
	Refused Figure = "refused"
	Failed  Figure = "failed"
	GaveUp  Figure = "given up by clients"
)

// Figures returns all figures.
func Figures() []Figure { return []Figure{Refused, Failed, GaveUp} }

// Counts are the finished requests of a node, or of several.
type Counts struct {
	Requests int
	Refused  int
	Failed   int // engines failed, or a time was over
	GaveUp   int // the client was gone first

	Started float64 // when the process of a node started, in Unix seconds; 0 = not known
}

// Share returns the share of a figure.
func (c Counts) Share(f Figure) Share {
	some := map[Figure]int{Refused: c.Refused, Failed: c.Failed, GaveUp: c.GaveUp}
	return Share{some[f], c.Requests}
}

// Since returns what has been counted since an earlier reading of the same process.
func (c Counts) Since(earlier Counts) Counts {
	return Counts{
		Requests: c.Requests - earlier.Requests, Refused: c.Refused - earlier.Refused, Failed: c.Failed - earlier.Failed, GaveUp: c.GaveUp - earlier.GaveUp,
		Started: c.Started,
	}
}

// And returns the requests of two nodes, or of two times.
func (c Counts) And(other Counts) Counts {
	return Counts{
		Requests: c.Requests + other.Requests, Refused: c.Refused + other.Refused, Failed: c.Failed + other.Failed, GaveUp: c.GaveUp + other.GaveUp,
	}
}

// Restarted reports whether an earlier reading is that of another process.
func (c Counts) Restarted(earlier Counts) bool {
	return c.Started != earlier.Started || c.Requests < earlier.Requests
}

// Read returns the counts of a node by its page /metrics. At a colo server, what a pool refuses counts beside the requests that got a permit.
func Read(page string) (c Counts, err error) {
	known := false
	for line := range strings.Lines(page) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if !ok {
			series, value, _ = strings.Cut(strings.TrimSpace(line), " ")
		}
		name, labels, _ := strings.Cut(series, "{")
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		switch name {
		case "colonnade_build_info":
			known = true
		case "process_start_time_seconds":
			c.Started = number
		case "inference_requests_total":
			c.add(label(labels, "outcome"), int(number))
		case "colonnade_pool_refusals_total":
			c.add("refused", int(number))
		}
	}
	if !known {
		return c, errors.New("its page /metrics is not that of a node")
	}
	return c, nil
}

// add counts requests with an outcome.
func (c *Counts) add(outcome string, n int) {
	switch outcome {
	case "moved": // it ends at another server
		return
	case "refused":
		c.Refused += n
	case "engine_error", "timeout", "crashed":
		c.Failed += n
	case "client_gone":
		c.GaveUp += n
	}
	c.Requests += n
}

// label returns the value of a label. Names and outcomes have no characters that are escaped.
func label(labels, name string) string {
	for part := range strings.SplitSeq(labels, ",") {
		if value, ok := strings.CutPrefix(part, name+`="`); ok {
			return strings.TrimSuffix(value, `"`)
		}
	}
	return ""
}
