package entry

import (
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/internal/ctxtime"
)

const (
	// tableWait is how long a request waits for a table with the server that another server has named.
	tableWait = time.Second
	tablePoll = 10 * time.Millisecond
)

// serverNamed returns the server that a verdict names as the home of the pool, by the newest table; nil if it names none, or if the server
// is not known soon.
func (c *call) serverNamed(colo string, v hop.Verdict) *fleet.Server {
	if v.To == "" {
		return nil
	}
	for until := time.Now().Add(tableWait); ; ctxtime.Sleep(c.Context, tablePoll) {
		t := c.entry.config.Table()
		for _, s := range t.Servers(colo) {
			if s.Node == v.To {
				c.table = t
				return s
			}
		}
		known := max(t.ServersRevision(colo), t.Listed)
		if known >= v.Revision || c.Context.Err() != nil || !time.Now().Before(until) {
			return nil
		}
	}
}
