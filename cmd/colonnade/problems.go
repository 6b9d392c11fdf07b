package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/node"
)

const (
	// quietLimit is how long a node may have heard nothing from etcd. Nodes ask etcd every few seconds by their own
	// clocks, and look for another connection after 15 s.
	quietLimit = 20 * time.Second
	// expirySoon is when a certificate is reported before it expires, if less than a tenth of its validity is left: what
	// renews certificates has failed by then.
	expirySoon = 14 * 24 * time.Hour
	// unresponsiveLimit is how long an unresponsive server is reported after the last attempt.
	unresponsiveLimit = 10 * time.Minute
)

// problem is one thing that is wrong in a fleet, or that may be.
type problem struct {
	Severity severity `json:"severity"`
	Document string   `json:"document,omitempty"` // key of the document or node that it is about
	Text     string   `json:"text"`
}

type severity string

const (
	severityError   severity = "error"
	severityWarning severity = "warning" // may be intended
)

// problemList collects problems.
type problemList struct{ all []problem }

func (l *problemList) errorf(document, format string, args ...any) {
	l.all = append(l.all, problem{severityError, document, fmt.Sprintf(format, args...)})
}

func (l *problemList) warnf(document, format string, args ...any) {
	l.all = append(l.all, problem{severityWarning, document, fmt.Sprintf(format, args...)})
}

// problems lists what is wrong with a fleet, of the colos that a query includes: errors before warnings, and of the errors
// rejected documents first.
func problems(s *fleetState, q *poolQuery) []problem {
	l := &problemList{all: []problem{}}
	rejected := s.rejections()
	for _, r := range rejected {
		e := r.InvalidError
		e.Key = fmt.Sprintf("%s (revision %d)", r.Key, s.revisions[r.Key])
		text := e.Error()
		if len(r.instead) > 0 {
			text += "; in force: " + firstOf(r.instead)
		}
		l.errorf(r.Key, "%s", text)
	}
	if s.listErr != "" {
		l.errorf("", "%s", s.listErr)
	}
	active := 0
	for _, c := range s.table.Colos() {
		if c.State != fleet.StateActive {
			continue
		}
		active++
		if q.includes(roleColo, c.Name) && !slices.ContainsFunc(s.nodes, func(n registration) bool { return n.Role == roleColo && n.Place == c.Name }) {
			l.errorf("colos/"+c.Name, "colo %s: no server is registered: there is none, or it has lost etcd for longer than its lease", c.Name)
		}
	}
	if active == 0 && len(rejected) == 0 && len(s.table.Models()) > 0 {
		l.errorf("", "no model can be served: none of the documents colos/… is active; every request gets 503")
	}
	l.addConflicts(s.table.Conflicts)
	for _, d := range s.table.Dangling() {
		// A rejected document of the missing kind may be in force in an earlier version.
		if !slices.ContainsFunc(rejected, func(r rejection) bool { return strings.HasPrefix(r.Key, string(d.Missing)+"/") }) {
			l.addDangling(d)
		}
	}
	l.addPools(s.table)
	for i := range s.Nodes {
		l.addNode(s, &s.Nodes[i])
	}
	l.addFleetKeys(s.Nodes)
	l.addRedis(s.Nodes)
	l.addRecords(s, q)
	l.addBlocked(s)
	if held := heldBy(s.Nodes); len(held.keys) > 0 {
		l.errorf("", "%s; if they are intended, run: colonnade config confirm-deletions", held)
	}
	l.sort()
	return l.all
}

// sort puts errors before warnings.
func (l *problemList) sort() {
	slices.SortStableFunc(l.all, func(a, b problem) int { return strings.Compare(string(a.Severity), string(b.Severity)) })
}

// count returns the number of problems of one severity.
func (s *fleetState) count(severity severity) (n int) {
	for _, p := range s.Problems {
		if p.Severity == severity {
			n++
		}
	}
	return n
}

// err returns the error of a command that has printed the problems; warnings are none.
func (s *fleetState) err() error {
	if n := s.count(severityError); n > 0 {
		return fmt.Errorf("%s found", count(n, "error"))
	}
	return nil
}

// addConflicts adds what two documents claim. Of an alias that another model has, the precedence is defined, so it may be
// intended. A second document for a URL or a key is not in force in part, which is a mistake.
func (l *problemList) addConflicts(conflicts []fleet.Conflict) {
	for _, c := range conflicts {
		if c.What == fleet.ConflictAlias {
			l.warnf(c.Loser, "%s: aliases: %q: requests for it go to %s, which has the same name or alias", c.Loser, c.Value, c.Winner)
		} else {
			l.errorf(c.Loser, "%s: %s: %q: not in force, since %s has the same %s", c.Loser, c.What, c.Value, c.Winner, c.What)
		}
	}
}

func (l *problemList) addDangling(d fleet.Dangling) {
	if d.Field == "" {
		l.warnf(d.Document, "%s: %s", d.Document, d.Reason)
	} else {
		l.warnf(d.Document, "%s: %s: %q: %s", d.Document, d.Field, d.Value, d.Reason)
	}
}

// addNode adds the problems of a node, but for the deletions that it holds back.
func (l *problemList) addNode(s *fleetState, n *nodeState) {
	name, c := n.name(), n.Config
	if c == nil {
		l.errorf(n.Document, "%s: %s", name, n.unreachable())
		return
	}
	if n.NotReady != "" && n.State != fleet.StateDraining && n.NotReady != fleet.StateDraining {
		l.errorf(n.Document, "%s: is not ready: %s", name, n.NotReady)
	}
	if age := seconds(c.AgeSeconds); age > quietLimit && c.Source != "" {
		l.errorf(n.Document, "%s: has not been able to read its documents (%s) for %s; those of then are in force", name, c.Source, brief(age))
	} else if age > quietLimit {
		l.errorf(n.Document, "%s: has not heard from etcd for %s; the documents of revision %d are in force", name, brief(age), c.Revision)
	}
	if c.Revision > s.newest {
		l.errorf(n.Document, "%s: has heard of revision %d, but etcd is at %d: it follows another etcd, or this one was restored", name, c.Revision, s.newest)
	}
	if c.Source != "" {
		l.addReported(n.name(), c)
	}
	for _, certificate := range c.Certificates {
		l.addCertificate(n.Document, name, certificate, s.Time)
	}
	for _, u := range c.Unresponsive {
		if ago := s.Time.Sub(u.Last); ago < unresponsiveLimit {
			l.warnf(n.Document, "%s: has had no answer from server %s/%s for %s (%s, the last one %s ago): %s",
				name, u.Colo, u.Node, inDays(s.Time.Sub(u.Since)), count(u.Times, "attempt"), brief(max(ago, 0)), u.Error)
		}
	}
	for _, colo := range c.UnreachedColos {
		if colo.FailingSince != nil {
			l.warnf(n.Document, "%s: has reached no server of colo %s for %s (%s), and asks it last", name, colo.Colo,
				inDays(s.Time.Sub(*colo.FailingSince)), count(colo.Failures, "attempt"))
		}
	}
	for _, loss := range c.LostEvents {
		l.errorf(n.Document, "%s: %s", name, loss)
	}
	if len(c.ExpiredLeases) > 0 {
		l.warnf(n.Document, "%s: in force although their leases have expired: %s", name, firstOf(c.ExpiredLeases))
	}
}

// addReported adds what a node reports about documents that are not in etcd.
func (l *problemList) addReported(node string, c *node.ConfigState) {
	for _, r := range c.Rejected {
		e := document.InvalidError{Key: r.Key, Field: r.Field, Reason: r.Reason}
		if r.File != "" {
			e.Key = strings.TrimSuffix(r.File+": "+r.Key, ": ")
		}
		instead := "nothing of it is in force"
		if r.LastGood {
			instead = "an earlier version is in force"
		}
		l.errorf(r.Key, "%s: %s; %s", node, e.Error(), instead)
	}
	l.addConflicts(c.Conflicts)
}

// name returns the key of a node's document, or if it is not known, its address.
func (n *nodeState) name() string { return cmp.Or(n.Document, n.Admin) }

// unreachable says that a node could not be asked, and why.
func (n *nodeState) unreachable() string {
	if n.Admin == "" {
		return "cannot be asked: " + n.Error
	}
	return "cannot be asked at " + n.Admin + ": " + n.Error
}

func (l *problemList) addCertificate(document, name string, c node.CertificateState, now time.Time) {
	if c.Name != "" {
		l.addACME(document, name, c, now)
		return
	}
	flags := "-tls-cert and -tls-key"
	if c.Listener == "peer" {
		flags = "-peer-tls-cert and -peer-tls-key"
	}
	if left := c.Expires.Sub(now); left <= 0 {
		l.errorf(document, "%s: its %s certificate expired %s ago, so connections to it fail; replace the files of %s", name, c.Listener, inDays(-left), flags)
	} else if left < expirySoon && left < c.Expires.Sub(c.Begins)/10 {
		l.warnf(document, "%s: its %s certificate expires in %s, at %s; replace the files of %s",
			name, c.Listener, inDays(left), c.Expires.UTC().Format("2006-01-02 15:04 UTC"), flags)
	}
}

// addACME adds what is wrong with a certificate that the node requests by itself.
func (l *problemList) addACME(document, name string, c node.CertificateState, now time.Time) {
	left := c.Expires.Sub(now)
	switch {
	case c.Expires.IsZero() && c.Problem == "":
		l.warnf(document, "%s: has requested its first certificate for %s, and no answer yet", name, c.Name)
	case c.Expires.IsZero():
		l.errorf(document, "%s: has no certificate for %s, so connections to it fail: %s", name, c.Name, c.Problem)
	case left <= 0:
		l.errorf(document, "%s: its certificate for %s expired %s ago, so connections to it fail: %s", name, c.Name, inDays(-left), c.Problem)
	case c.Problem != "":
		l.warnf(document, "%s: cannot renew its certificate for %s, which expires in %s: %s", name, c.Name, inDays(left), c.Problem)
	}
}

// inDays returns a duration in days if it has at least two.
func inDays(d time.Duration) string {
	if days := int(d.Hours() / 24); days >= 2 {
		return count(days, "day")
	}
	return brief(d)
}

// heldDeletions are the deletions that nodes hold back, in the order in which they report them.
type heldDeletions struct {
	keys, nodes []string
	ways        deletionWays
}

func heldBy(nodes []nodeState) (h heldDeletions) {
	for _, n := range nodes {
		if n.Config == nil || len(n.Config.PendingDeletions) == 0 {
			continue
		}
		h.nodes = append(h.nodes, n.Node)
		h.ways.add(n.Config.HeldDeletions)
		for _, key := range n.Config.PendingDeletions {
			if !slices.Contains(h.keys, key) {
				h.keys = append(h.keys, key)
			}
		}
	}
	return h
}

func (h heldDeletions) String() string {
	return fmt.Sprintf("%s held back by %s: %s%s", count(len(h.keys), "deletion"), firstOf(h.nodes), firstOf(h.keys), h.ways)
}
