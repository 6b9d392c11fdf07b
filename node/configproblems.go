package node

import (
	"strings"
	"time"

	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/wording"
	"colonnade/problems"
	"colonnade/reasons"
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

// AddProblems adds the problems that the state of a node shows at a time, but for those of its documents. The name stands in texts, and subject is the key of the node's
// document; empty = none. Commands call it for nodes of older versions, which do not report problems themselves.
func (c *ConfigState) AddProblems(l *problems.List, subject, name string, now time.Time) {
	if age := wording.Seconds(c.AgeSeconds); age > quietLimit && c.Source != "" {
		p := l.Errorf(reasons.StoreSilent, subject, "%s: has not been able to read its documents (%s) for %s; those of then are in force", name, c.Source, wording.Brief(age))
		p.Action = "look whether the files are there, and whether the process may read them"
	} else if age > quietLimit {
		l.Errorf(reasons.StoreSilent, subject, "%s: has not heard from etcd for %s; the documents of revision %d are in force", name, wording.Brief(age), c.Revision)
	}
	for _, certificate := range c.Certificates {
		certificate.addProblem(l, subject, name, now)
	}
	if c.FleetKeys != nil && c.FleetKeys.Problem != "" {
		l.Warnf(reasons.FleetKeyUnreadable, subject, "%s: keeps the fleet keys that it has: %s", name, c.FleetKeys.Problem)
	}
	for _, i := range c.Issuers {
		if document := fleet.KindIssuer.Key(i.Issuer); i.Problem != "" && i.Keys == 0 {
			l.Errorf(reasons.IssuerWithoutKeys, document, "%s: has no keys of %s: %s", name, document, i.Problem)
		} else if i.Problem != "" {
			l.Warnf(reasons.IssuerAway, document, "%s: cannot fetch the keys of %s since those of %s ago: %s", name, document, wording.InDays(now.Sub(i.Fetched)), i.Problem)
		}
	}
	c.addCaptures(l, subject, name, now)
	for i := range c.Sinks {
		c.Sinks[i].addProblems(l, subject, name, now)
	}
	for _, u := range c.Unresponsive {
		if ago := now.Sub(u.Last); ago < unresponsiveLimit {
			l.Warnf(reasons.ServerUnresponsive, subject, "%s: has had no answer from server %s/%s for %s (%s, the last one %s ago): %s",
				name, u.Colo, u.Node, wording.InDays(now.Sub(u.Since)), wording.Count(u.Times, "attempt"), wording.Brief(max(ago, 0)), u.Error)
		}
	}
	for _, colo := range c.UnreachedColos {
		if colo.FailingSince != nil {
			l.Warnf(reasons.ColoUnreached, subject, "%s: has reached no server of colo %s for %s (%s), and asks it last", name, colo.Colo,
				wording.InDays(now.Sub(*colo.FailingSince)), wording.Count(colo.Failures, "attempt"))
		}
	}
	c.addStaged(l, subject, name, now)
	if c.Redis != nil && !c.Redis.Up {
		l.Warnf(reasons.RedisAway, subject, "%s: Redis has not answered since %s, so it enforces its share of limits: %s",
			name, c.Redis.Since.UTC().Format(time.TimeOnly+" MST"), c.Redis.Error)
	}
	for _, loss := range c.LostEvents {
		l.Errorf(reasons.EventsLost, subject, "%s: %s", name, loss)
	}
	if len(c.ExpiredLeases) > 0 {
		l.Warnf(reasons.LeaseExpired, subject, "%s: in force although their leases have expired: %s", name, wording.FirstOf(c.ExpiredLeases))
	}
	for _, r := range c.Records {
		l.Errorf(reasons.RecordUnreadable, r.Key, "%s: %s cannot read it as a whole: %s", r.Key, c.Node, r.Problem)
	}
	if c.WrittenOff > 0 {
		l.Warnf(reasons.RecordWrittenOff, subject, "%s: has deleted %s of processes that were silent, since its start; while such a process still ran, engines may have "+
			"had more requests than slots", name, wording.Count(c.WrittenOff, "record"))
	}
}

// addStaged adds that a change is staged on the node.
func (c *ConfigState) addStaged(l *problems.List, subject, name string, now time.Time) {
	switch s := c.Staged; {
	case s == nil:
	case s.Problem != "":
		l.Warnf(reasons.ChangeStaged, subject, "%s: does not take up the change that %s has staged: %s", name, s.By, s.Problem)
	default:
		l.Warnf(reasons.ChangeStaged, subject, "%s: has had a staged change in force for %s, by %s: %s", name, wording.InDays(max(now.Sub(s.Since), 0)), s.By, wording.FirstOf(s.Documents))
	}
}

// AddDocuments adds the documents that the node rejects, and those that are in conflict.
func (c *ConfigState) AddDocuments(l *problems.List, name string) {
	for _, r := range c.Rejected {
		e := document.InvalidError{Key: r.Key, Field: r.Field, Reason: r.Reason}
		if r.File != "" {
			e.Key = strings.TrimSuffix(r.File+": "+r.Key, ": ")
		}
		instead := "nothing of it is in force"
		if r.LastGood {
			instead = "an earlier version is in force"
		}
		l.Errorf(reasons.DocumentRejected, r.Key, "%s: %s; %s", name, e.Error(), instead)
	}
	l.AddConflicts(c.Conflicts)
}

// addProblem adds what is wrong with a certificate.
func (c *CertificateState) addProblem(l *problems.List, subject, name string, now time.Time) {
	if c.Name != "" {
		c.addACME(l, subject, name, now)
		return
	}
	flags := "-tls-cert and -tls-key"
	if c.Listener == "peer" {
		flags = "-peer-tls-cert and -peer-tls-key"
	}
	if left := c.Expires.Sub(now); left <= 0 {
		l.Errorf(reasons.CertificateExpired, subject, "%s: its %s certificate expired %s ago, so connections to it fail; replace the files of %s", name, c.Listener,
			wording.InDays(-left), flags)
	} else if left < expirySoon && left < c.Expires.Sub(c.Begins)/10 {
		l.Warnf(reasons.CertificateExpiring, subject, "%s: its %s certificate expires in %s, at %s; replace the files of %s",
			name, c.Listener, wording.InDays(left), c.Expires.UTC().Format("2006-01-02 15:04 UTC"), flags)
	}
}

// addACME adds what is wrong with a certificate that the node requests by itself.
func (c *CertificateState) addACME(l *problems.List, subject, name string, now time.Time) {
	left := c.Expires.Sub(now)
	switch {
	case c.Expires.IsZero() && c.Problem == "":
		l.Warnf(reasons.CertificateExpiring, subject, "%s: has requested its first certificate for %s, and no answer yet", name, c.Name)
	case c.Expires.IsZero():
		l.Errorf(reasons.CertificateExpired, subject, "%s: has no certificate for %s, so connections to it fail: %s", name, c.Name, c.Problem)
	case left <= 0:
		l.Errorf(reasons.CertificateExpired, subject, "%s: its certificate for %s expired %s ago, so connections to it fail: %s", name, c.Name, wording.InDays(-left), c.Problem)
	case c.Problem != "":
		l.Warnf(reasons.CertificateExpiring, subject, "%s: cannot renew its certificate for %s, which expires in %s: %s", name, c.Name, wording.InDays(left), c.Problem)
	}
}

// addCaptures adds the captures that run: content of requests leaves the node.
func (c *ConfigState) addCaptures(l *problems.List, subject, name string, now time.Time) {
	for _, capture := range c.Captures {
		document := fleet.KindCapture.Key(capture.Name)
		p := l.Warnf(reasons.CaptureRunning, document, "%s: CAPTURES requests and responses of account %s with their content for another %s, to %s (%s, %d dropped)", name,
			capture.Account, wording.InDays(max(capture.Until.Sub(now), 0)), capture.Sink, wording.Count(int(capture.Written), "record"), capture.Dropped)
		p.Action = "if it has served its purpose: colonnade capture stop " + capture.Name
		if capture.Problem != "" {
			l.Warnf(reasons.CaptureFailing, document, "%s: cannot write the capture %s to %s: %s", name, capture.Name, capture.Sink, capture.Problem)
		}
	}
}
