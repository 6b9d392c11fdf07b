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

// serverNamed returns the server that a verdict of a server of the colo names as the home of the pool: as the newest table has it, or as the
// verdict has it if that knows newer changes of the colo's servers than the table, which may be old because this entry does not reach etcd.
// It returns nil if the verdict names none, or if the server is not known soon.
//
// A verdict cannot lead out of its colo: with TLS between nodes, the request is sent only to a server whose certificate has the name of that
// colo and node, and the hop token is for that node in any case.
func (c *call) serverNamed(colo string, v hop.Verdict) *fleet.Server {
	if v.To == "" {
		return nil
	}
	for until := time.Now().Add(tableWait); ; ctxtime.Sleep(c.Context, tablePoll) {
		t := c.entry.config.Table()
		older := max(t.ServersRevision(colo), t.Listed) < v.Revision
		known := serverOf(t, colo, v.To)
		switch {
		case older && v.Address != "" && (known == nil || !isAt(known, v)):
			return &fleet.Server{
				Colo: colo, Node: v.To, Address: v.Address, Boot: v.Boot, State: fleet.StateActive, Protocol: fleet.ProtocolRange{Max: v.Protocol},
			}
		case known != nil:
			c.table = t
			return known
		case !older || c.Context.Err() != nil || !time.Now().Before(until):
			return nil
		}
	}
}

// serverOf returns the server of a colo that a table has under a node's name, or nil.
func serverOf(t *fleet.Table, colo, node string) *fleet.Server {
	for _, s := range t.Servers(colo) {
		if s.Node == node {
			return s
		}
	}
	return nil
}

// isAt reports whether a server is where a verdict says.
func isAt(s *fleet.Server, v hop.Verdict) bool {
	return s.Address == v.Address && (v.Boot == "" || s.Boot == v.Boot)
}
