package query

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"colonnade/analytics"
)

// By lists what usage can be grouped by.
var By = []string{"account", "key", "model", "colo", "day"}

// Counts is what requests have used.
type Counts struct {
	Requests   int `json:"requests"`    // of clients, by the events of entries; all below are some of them
	Refused    int `json:"refused"`     // with an error before an engine had them
	Failed     int `json:"failed"`      // the engine, the time or a node
	ClientGone int `json:"client_gone"` // before the end

	Inferences       int                `json:"inferences"` // permits, by the events of colos; all below is of them, and only they bill
	PromptTokens     int64              `json:"prompt_tokens"`
	CompletionTokens int64              `json:"completion_tokens"`
	CachedTokens     int64              `json:"cached_tokens"`
	TokensEstimated  int64              `json:"tokens_estimated"`
	AudioSeconds     float64            `json:"audio_seconds"`
	Cost             map[string]float64 `json:"cost"` // by unit
}

// UsageRow is the usage of one group.
type UsageRow struct {
	Group []string // values of what it is grouped by, in that order; "-" is unknown
	Counts
}

// Usage sums up final events, each once. A request that was written off as crashed counts by its real end if there is one. It holds 16 bytes
// for each event of a node, and one row for each group. Not safe for concurrent use.
type Usage struct {
	by   []string
	zone *time.Location // of days

	rows    map[string]*UsageRow
	seen    map[[16]byte]bool
	crashed map[[16]byte]analytics.Event // ends whose real ones may follow

	first, last time.Time
	nodes       map[string]bool // that have logged events
	visited     map[string]bool // COLO/NODE that have carried requests
}

// NewUsage returns an empty sum, grouped by some of By.
func NewUsage(by []string, zone *time.Location) *Usage {
	return &Usage{
		by: by, zone: zone, rows: map[string]*UsageRow{}, seen: map[[16]byte]bool{}, crashed: map[[16]byte]analytics.Event{},
		nodes: map[string]bool{}, visited: map[string]bool{},
	}
}

// Add adds an event by its JSON. Begins, duplicates, forwards and incidents of engines count nothing.
func (u *Usage) Add(event []byte) error {
	var e analytics.Event
	if err := json.Unmarshal(event, &e); err != nil {
		return fmt.Errorf("cannot read event %.200q: %w", event, err)
	}
	u.nodes[e.Node] = true
	for _, server := range e.ColoPath {
		u.visited[server] = true
	}
	if e.Phase != analytics.PhaseEnd || e.Kind != analytics.KindRequest && e.Kind != analytics.KindInference {
		return nil
	}
	id := idOf(e.EventID)
	switch {
	case u.seen[id]:
	case e.Outcome == analytics.OutcomeCrashed:
		u.crashed[id] = e
	default:
		u.seen[id] = true
		delete(u.crashed, id)
		u.count(&e)
	}
	return nil
}

// EndNode says that all events of a node, or of several, were added: others have other ids.
func (u *Usage) EndNode() {
	for _, e := range u.crashed {
		u.count(&e)
	}
	clear(u.crashed)
	clear(u.seen)
}

// idOf returns the 128 bits of an event's id.
func idOf(text string) (id [16]byte) {
	if len(text) != 2*len(id) {
		copy(id[:], text) // of tests
		return id
	}
	_, _ = hex.Decode(id[:], []byte(text))
	return id
}

func (u *Usage) count(e *analytics.Event) {
	if u.first.IsZero() || e.Time.Before(u.first) {
		u.first = e.Time
	}
	if e.Time.After(u.last) {
		u.last = e.Time
	}
	u.row(e).add(e)
}

// row returns the row of an event's group.
func (u *Usage) row(e *analytics.Event) *UsageRow {
	group := make([]string, len(u.by))
	for i, name := range u.by {
		group[i] = cmp.Or(u.value(name, e), "-")
	}
	key := strings.Join(group, "\x00")
	r := u.rows[key]
	if r == nil {
		r = &UsageRow{Group: group}
		u.rows[key] = r
	}
	return r
}

// value returns what an event is grouped by. The name of a model that is in no document is any text of a client.
func (u *Usage) value(name string, e *analytics.Event) string {
	switch {
	case name == "account":
		return e.Account
	case name == "key":
		return e.Key
	case name == "colo":
		return e.ColoID
	case name == "day":
		return e.Time.In(u.zone).Format(time.DateOnly)
	case e.Pool == "":
		return ""
	}
	return e.Model
}

func (c *Counts) add(e *analytics.Event) {
	if e.Kind == analytics.KindRequest {
		c.Requests++
		switch e.Outcome {
		case analytics.OutcomeCompleted:
		case analytics.OutcomeRefused:
			c.Refused++
		case analytics.OutcomeClientGone:
			c.ClientGone++
		default:
			c.Failed++
		}
		return
	}
	c.Inferences++
	c.PromptTokens += int64(e.PromptTokens)
	c.CompletionTokens += int64(e.CompletionTokens)
	c.CachedTokens += int64(e.CachedTokens)
	c.TokensEstimated += int64(e.TokensEstimated)
	c.AudioSeconds += e.AudioSeconds
	if e.Cost != 0 {
		c.addCost(e.CostUnit, e.Cost)
	}
}

func (c *Counts) addCost(unit string, cost float64) {
	if c.Cost == nil {
		c.Cost = map[string]float64{}
	}
	c.Cost[unit] += cost
}

// Rows returns the rows, ordered by group.
func (u *Usage) Rows() []UsageRow {
	var rows []UsageRow
	for _, r := range u.rows {
		rows = append(rows, *r)
	}
	slices.SortFunc(rows, func(a, b UsageRow) int { return slices.Compare(a.Group, b.Group) })
	return rows
}

// Total returns the sum of all rows.
func Total(rows []UsageRow) (total Counts) {
	for i := range rows {
		c := &rows[i].Counts
		total.Requests += c.Requests
		total.Refused += c.Refused
		total.Failed += c.Failed
		total.ClientGone += c.ClientGone
		total.Inferences += c.Inferences
		total.PromptTokens += c.PromptTokens
		total.CompletionTokens += c.CompletionTokens
		total.CachedTokens += c.CachedTokens
		total.TokensEstimated += c.TokensEstimated
		total.AudioSeconds += c.AudioSeconds
		for unit, cost := range c.Cost {
			total.addCost(unit, cost)
		}
	}
	return total
}

// Span returns the times of the oldest and of the newest event that counts; zero without any.
func (u *Usage) Span() (first, last time.Time) { return u.first, u.last }

// Unread returns the colo servers, as COLO/NODE, that have carried requests, and of which no event was added.
func (u *Usage) Unread() (servers []string) {
	for server := range u.visited {
		if _, name, _ := strings.Cut(server, "/"); !u.nodes[name] {
			servers = append(servers, server)
		}
	}
	slices.Sort(servers)
	return servers
}
