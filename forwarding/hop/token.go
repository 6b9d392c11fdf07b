package hop

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Token is what the next server needs to know about a request. Durations are what remains of a budget, never times of day, so that
// clocks need not agree.
type Token struct {
	Issued int64 `json:"iat"` // Unix seconds
	// Boot, Issuer and Number make a token good once: see [Sequence] and [ReplayGuard].
	Boot   string `json:"boot,omitempty"`
	Issuer string `json:"iss,omitempty"`
	Number uint64 `json:"n,omitempty"`
	// Headers are the header lines that are forwarded besides those of [ForwardedHeaders].
	Headers *MoreHeaders `json:"hdr,omitempty"`

	RequestID       string   `json:"rid"`
	ClientRequestID string   `json:"crid,omitempty"`
	Source          string   `json:"src"` // where the request entered: the entry's node name
	Account         string   `json:"acc"`
	Key             string   `json:"key,omitempty"` // id of the API key that the client has used, for events; empty = none, or the entry is of a version before
	Weight          int      `json:"w"`
	Priority        string   `json:"pri"`
	Concurrent      int      `json:"con,omitempty"` // the account's limit of running requests
	Model           string   `json:"mod"`           // its name, never an alias
	Visited         []string `json:"via,omitempty"` // the servers on the path so far, without earlier attempts of the entry: see [NodeName]
	HopsLeft        int      `json:"hops"`          // further hops allowed
	// Onward are the next stops of the plan, in order, at most 16: if the receiver's colo is out of capacity, it sends the request to the
	// first, with the rest of them. Each speaks a protocol from [NodeNamesProtocol] on.
	Onward          []Stop `json:"onw,omitempty"`
	Attempt         int    `json:"att"`           // attempts before this one
	RetriesLeft     int    `json:"ret"`           // further attempts allowed after errors of engines
	EndpointsFailed int    `json:"brk,omitempty"` // endpoints that have failed with this request
	Wait            Wait   `json:"wait"`
	// WaitBelow is the smallest expected wait that another colo has reported, for the last colo of the plan; 0 = none was reported. With
	// [WaitSpill], the request waits here if the expected wait is at most that, or at most the pool's spill_wait.
	WaitBelow Millis `json:"below,omitempty"`
	Waited    Millis `json:"waited,omitempty"` // time spent in queues before, which counts against the budget for waiting
	// Revision is that of the sender's table. A server whose table is older waits for a newer one before it answers [VerdictMoved].
	Revision int64 `json:"rev,omitempty"`
	// Unanswered has the nodes of the receiver's colo that did not answer the sender: if one of them is the home, the request may wait here.
	Unanswered []string `json:"una,omitempty"`
	// ReturnProbability is how likely the client comes back to this colo if all colos of the plan refuse it: Retry-After counts it
	// by that much. 0 = not known, which counts as 1.
	ReturnProbability float64 `json:"chc,omitempty"`
	// Rejoin says that the request had a place in the queue of a server that was its home no longer: it keeps its place by the time waited,
	// and is not refused for want of room.
	Rejoin bool `json:"rejoin,omitempty"`
	// WantsProgress asks for interim responses with the [Progress] of the request while it waits.
	WantsProgress bool `json:"ev,omitempty"`
	// KeepUsage asks to leave the event with the usage in a stream, although the client did not ask for it: the sender reads it and takes it
	// out.
	KeepUsage bool `json:"use,omitempty"`
	// FirstByte is the time until the client's own deadline for the first byte; 0 = none.
	FirstByte Millis `json:"fb,omitempty"`
	// Total is the time left for the whole request.
	Total Millis `json:"total"`
}

// Forwards reports whether an engine may get the header line called name. It does not hold for a token of the version before, which names
// no header lines.
func (t *Token) Forwards(name string) bool {
	return IsForwarded(name) || t.Headers != nil && slices.ContainsFunc(t.Headers.Names, func(signed string) bool {
		return strings.EqualFold(signed, name)
	})
}

// Spend takes d from the time left for the request, of which a millisecond always remains.
func (t *Token) Spend(d time.Duration) {
	t.Total = max(t.Total-Millis(d), Millis(time.Millisecond))
	if t.FirstByte > 0 {
		t.FirstByte = max(t.FirstByte-Millis(d), Millis(time.Millisecond))
	}
}

// Wait says whether a request may wait for a permit.
type Wait string

// The values of Wait.
const (
	WaitNever Wait = "never" // the client asked not to
	WaitSpill Wait = "spill" // only if the wait is short, since the plan has further colos
	WaitFull  Wait = "full"  // as long as the pool allows
)

// maxMillis is a day, in milliseconds.
const maxMillis = 24 * 3600 * 1000

// Millis is a duration whose JSON form is a whole number of milliseconds.
type Millis time.Duration

// MarshalJSON returns milliseconds.
func (m Millis) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, time.Duration(m).Milliseconds(), 10), nil
}

// UnmarshalJSON parses milliseconds, at most a day of them in either direction.
func (m *Millis) UnmarshalJSON(data []byte) error {
	ms, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		return fmt.Errorf("%.20q is not a whole number of milliseconds", data)
	}
	if ms > maxMillis || ms < -maxMillis {
		return fmt.Errorf("%d ms is more than a day", ms)
	}
	*m = Millis(time.Duration(ms) * time.Millisecond)
	return nil
}
