package acmecert

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
)

// logPeriod is the shortest time between two log lines about a name, or about the authority.
const logPeriod = time.Minute

// reports logs what keeps certificates from being made, and has the last problem of each name.
type reports struct {
	logger *slog.Logger

	mu       sync.Mutex           // guards the fields below
	problems map[string]string    // by name; "" = of the authority
	logged   map[string]time.Time // by name
}

func newReports(logger *slog.Logger) *reports {
	return &reports{logger: logger, problems: map[string]string{}, logged: map[string]time.Time{}}
}

// add keeps a problem, and logs it unless the last line about the name is less than a minute old.
func (r *reports) add(name, reason, advice string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems[name] = reason + ": " + advice
	now := time.Now()
	if last, ok := r.logged[name]; ok && now.Sub(last) < logPeriod {
		return
	}
	r.logged[name] = now
	if name == "" {
		r.logger.Warn("cannot get certificates", "error", reason, "advice", advice)
	} else {
		r.logger.Warn("cannot get a certificate", "name", name, "error", reason, "advice", advice)
	}
}

// clear forgets the problems of a name that has a new certificate, and those of the authority, which has made it.
func (r *reports) clear(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.problems, name)
	delete(r.problems, "")
}

// problem returns the last problem of a name, or else of the authority.
func (r *reports) problem(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if own := r.problems[name]; own != "" {
		return own
	}
	return r.problems[""]
}

// report adds failures, with what the operator can do.
func (s *Source) report(failures map[string]error) {
	for _, name := range slices.Sorted(maps.Keys(failures)) {
		err := failures[name]
		s.reports.add(name, err.Error(), s.advice(name, kindOf(err)))
	}
}

// kindOf returns the kind of the authority's problem (RFC 8555, section 6.7), or "".
func kindOf(err error) string {
	var p *problem
	var answer *acme.Error
	switch {
	case errors.As(err, &p):
		return p.kind()
	case errors.As(err, &answer):
		return (&problem{Type: answer.ProblemType}).kind()
	}
	return ""
}

// advice returns what the operator can do about a problem.
func (s *Source) advice(name, kind string) string {
	switch kind {
	case "dns":
		return "make an A or AAAA record for " + name + " that leads to this machine"
	case "caa":
		return "a CAA record in DNS forbids this authority for " + name + ": change it, or use another authority (-tls-acme)"
	case "rateLimited":
		return "the authority limits how many certificates it issues, and is asked again later; do not delete the data directory"
	case "rejectedIdentifier", "unsupportedIdentifier":
		return "the authority issues no certificate for this name: use another authority (-tls-acme), or -tls-cert"
	case "externalAccountRequired":
		return "the authority wants accounts that were made with it before: use another authority (-tls-acme), or -tls-cert"
	case "invalidContact", "unsupportedContact":
		return "the authority does not accept the address in -tls-email: correct it, or leave it out"
	}
	if name != "" && kind != "" { // "connection", "tls", "unauthorized" and others: a challenge has failed
		ports := "port 443 must lead to -listen"
		if s.http != nil {
			ports += ", or port 80 to -tls-http-listen"
		}
		return "the authority must reach this process by the name " + name + ": check its A and AAAA records and the firewall; " + ports
	}
	return "check that this machine reaches " + s.config.directory() + " (-tls-acme); it is asked again later, and certificates in force stay so"
}
